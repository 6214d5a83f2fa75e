SET check_function_bodies = false;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE SCHEMA holdfast;
CREATE FUNCTION holdfast.append_and_index(text[], bigint[], text[], bytea[], bigint[], bigint[], bytea[], text[], bigint[], text[], text[], bigint[], double precision[], bigint[], text[], text[], text[], text[], bytea[], bytea[], changes text) RETURNS boolean
    LANGUAGE plpgsql
    AS $_$
    DECLARE
        watched boolean := "holdfast".append_entries(
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
            $20
        );
    BEGIN
        PERFORM "holdfast".change_heads(changes::jsonb);
        RETURN watched;
    END $_$;
CREATE FUNCTION holdfast.append_entries(text[], bigint[], text[], bytea[], bigint[], bigint[], bytea[], text[], bigint[], text[], text[], bigint[], double precision[], bigint[], text[], text[], text[], text[], bytea[], bytea[]) RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $_$
    BEGIN
        INSERT INTO "holdfast".entries (
            run, seq, kind, entry_id, parent, term, digest, step, step_index, type, status,
            at, duration, size, flow, thread, owner, meta, body
        ) SELECT
            unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7),
            unnest($8), unnest($9), unnest($10), unnest($11), unnest($12), unnest($13),
            unnest($14), unnest($15), unnest($16), unnest($17), unnest($18), unnest($19);
        -- Only this statement sees what others committed while the one before waited for them. An
        -- entry of another's behind one of ours: it waited for a run to be erased, and is below the
        -- tombstone. None before the first of ours: it is a gap, unless it opens or ends a run.
        -- One with another digest: the store has another history than the writer.
        IF EXISTS (
            SELECT FROM (
                SELECT run, seq, behind, seq = 0 OR (kind = 'tombstone' AND status = 'deleted') AS begins,
                    lag(seq) OVER (PARTITION BY run ORDER BY seq) AS previous,
                    lead(seq, 1, 9223372036854775807)
                        OVER (PARTITION BY run ORDER BY seq) AS next
                FROM unnest($1, $2, $3, $11, $20) AS new(run, seq, kind, status, behind)
            ) AS own WHERE (
                SELECT true FROM "holdfast".entries AS e
                WHERE e.run = own.run AND e.seq > own.seq AND e.seq < own.next LIMIT 1
            ) OR CASE
                WHEN own.behind <> '' THEN (
                    SELECT e.digest FROM "holdfast".entries AS e
                    WHERE e.run = own.run AND e.seq < own.seq
                        AND (own.begins OR e.seq = own.seq - 1)
                    ORDER BY e.seq DESC LIMIT 1
                ) IS DISTINCT FROM own.behind
                WHEN own.behind = '' AND (
                    SELECT true FROM "holdfast".entries AS e
                    WHERE e.run = own.run AND e.seq < own.seq LIMIT 1
                ) THEN true
                WHEN own.begins OR own.previous = own.seq - 1 THEN false
                ELSE (
                    SELECT true FROM "holdfast".entries AS e
                    WHERE e.run = own.run AND e.seq = own.seq - 1 LIMIT 1
                ) IS NULL
            END
        ) THEN
            RAISE EXCEPTION 'it is not the next entry' USING ERRCODE = 'unique_violation';
        END IF;
        RETURN EXISTS (SELECT FROM "holdfast".watchers);
    END $_$;
CREATE FUNCTION holdfast.change_heads(changes jsonb) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
    DECLARE
        c record;
        old record;
        known boolean;
        spent bigint;
        counted "holdfast".run_tally_new[] := '{}';
    BEGIN
        FOR c IN SELECT * FROM jsonb_to_recordset(changes) AS c(
            run text, removes boolean, first bigint, keeps_holder boolean, keeps_due boolean,
            keeps_questions boolean, opened bigint, changed bigint, status text, flow text,
            thread text, owner text, parent text, holder text, due bigint, questions bigint,
            labels text, seq bigint
        ) LOOP
            SELECT h.* INTO old FROM "holdfast".run_heads AS h WHERE h.run = c.run;
            known := FOUND;
            IF known AND c.removes THEN
                DELETE FROM "holdfast".run_heads AS h WHERE h.run = c.run;
                DELETE FROM "holdfast".run_labels AS l
                    USING json_array_elements_text(old.labels::json) AS own(label)
                    WHERE l.label = own.label AND l.opened = old.opened
                    AND l.run = c.run;
                counted := counted || ROW(
                    -1, coalesce(old.flow, ''), old.status, 0, -1, 0
                )::"holdfast".run_tally_new;
                known := false;
            END IF;
            CONTINUE WHEN c.status IS NULL;
            IF known THEN
                UPDATE "holdfast".run_heads AS h SET
                    changed = c.changed, status = c.status, flow = c.flow, thread = c.thread,
                    owner = c.owner, seq = c.seq,
                    holder = CASE WHEN c.keeps_holder THEN h.holder ELSE c.holder END,
                    due = CASE WHEN c.keeps_due THEN h.due ELSE c.due END,
                    questions = CASE WHEN c.keeps_questions THEN h.questions ELSE c.questions END
                WHERE h.run = c.run;
                spent := greatest(0, c.changed - old.opened);
            ELSE
                INSERT INTO "holdfast".run_heads (run, opened, changed, status, flow, thread, owner, parent, holder, due, questions, labels, seq) VALUES (
                    c.run, c.opened, c.changed, c.status, c.flow, c.thread, c.owner, c.parent,
                    c.holder, c.due, c.questions, c.labels, c.seq
                );
                INSERT INTO "holdfast".run_labels SELECT own.label, c.opened, c.run
                    FROM json_array_elements_text(c.labels::json) AS own(label);
                spent := greatest(0, c.changed - c.opened);
                counted := counted || ROW(
                    greatest(0, c.opened / 3600000000), coalesce(c.flow, ''), 'started', 0, 1, 0
                )::"holdfast".run_tally_new;
                old.flow := NULL;
                old.status := NULL;
                old.seq := c.first - 1;
            END IF;
            IF known AND (old.flow, old.status) IS DISTINCT FROM (c.flow, c.status) THEN
                counted := counted || ROW(
                    -1, coalesce(old.flow, ''), old.status, 0, -1, 0
                )::"holdfast".run_tally_new;
            END IF;
            IF NOT known OR (old.flow, old.status) IS DISTINCT FROM (c.flow, c.status) THEN
                counted := counted || ROW(
                    -1, coalesce(c.flow, ''), c.status, 0, 1, 0
                )::"holdfast".run_tally_new;
            END IF;
            IF c.seq > old.seq THEN
                counted := counted || ROW(
                    greatest(0, c.changed / 3600000000), coalesce(c.flow, ''), 'saves', 0,
                    c.seq - old.seq, 0
                )::"holdfast".run_tally_new;
            END IF;
            IF c.status IN ('completed', 'failed', 'cancelled', 'paused')
                AND old.status IS DISTINCT FROM c.status
            THEN
                IF c.status = 'paused' THEN
                    spent := 0;
                END IF;
                counted := counted || ROW(
                    greatest(0, c.changed / 3600000000), coalesce(c.flow, ''), c.status,
                    CASE WHEN spent < 1000 THEN 0
                        ELSE length(ltrim((spent / 1000)::bit(64)::text, '0')) END, 1, spent
                )::"holdfast".run_tally_new;
            END IF;
        END LOOP;
        INSERT INTO "holdfast".run_tally_new
        SELECT f.hour, f.flow, f.what, f.bucket, sum(f.n), sum(f.total) FROM unnest(counted) AS f
        GROUP BY f.hour, f.flow, f.what, f.bucket HAVING sum(f.n) <> 0;
    END $$;
CREATE FUNCTION holdfast.fold_tally() RETURNS boolean
    LANGUAGE plpgsql
    AS $$
    BEGIN
        IF NOT pg_try_advisory_xact_lock(hashtextextended('"holdfast" tally', 0)) THEN
            RETURN false;
        END IF;
        WITH new AS (DELETE FROM "holdfast".run_tally_new RETURNING *)
        INSERT INTO "holdfast".run_tally_sums AS sums
        SELECT hour, flow, what, bucket, sum(n), sum(total) FROM new
        GROUP BY hour, flow, what, bucket
        ON CONFLICT (hour, flow, what, bucket)
        DO UPDATE SET n = sums.n + excluded.n, total = sums.total + excluded.total;
        RETURN true;
    END $$;
CREATE TABLE holdfast.entries (
    run text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    kind text NOT NULL,
    entry_id bytea NOT NULL,
    parent bigint,
    term bigint NOT NULL,
    digest bytea NOT NULL,
    step text,
    step_index bigint,
    type text,
    status text NOT NULL,
    at bigint NOT NULL,
    duration double precision,
    size bigint NOT NULL,
    flow text,
    thread text,
    owner text,
    meta text NOT NULL,
    body bytea NOT NULL
)
WITH (toast_tuple_target='2712');
ALTER TABLE ONLY holdfast.entries ALTER COLUMN body SET STORAGE EXTERNAL;
COMMENT ON TABLE holdfast.entries IS 'holdfast schema 3';
CREATE VIEW holdfast.checkpoints AS
 SELECT ((entries.run || '@'::text) || entries.seq) AS checkpoint_id,
    entries.thread AS thread_id,
    entries.flow AS pipeline_id,
    (json.shown ->> 'flow_version'::text) AS pipeline_version,
    entries.step AS step_id,
    entries.step_index,
    COALESCE((json.shown ->> 'step_name'::text), entries.step) AS step_name,
    ('1970-01-01 00:00:00+00'::timestamp with time zone + ((GREATEST(entries.at, '-62135596800000000'::bigint))::double precision * '00:00:00.000001'::interval)) AS "timestamp",
    COALESCE(((json.shown -> 'metadata'::text))::text, '{}'::text) AS metadata,
    ((entries.run || '@'::text) || entries.parent) AS parent_checkpoint_id,
        CASE
            WHEN (entries.status = ANY (ARRAY['failed'::text, 'paused'::text])) THEN entries.status
            ELSE 'completed'::text
        END AS status,
    entries.run AS run_id,
    entries.seq AS sequence,
    entries.type AS checkpoint_type,
    entries.owner AS owner_id,
    entries.duration,
    entries.size AS state_bytes,
    octet_length(entries.body) AS stored_bytes,
    encode(entries.digest, 'hex'::text) AS digest
   FROM holdfast.entries,
    LATERAL ( SELECT
                CASE
                    WHEN ((entries.meta <> ''::text) AND (entries.meta !~ '\\u(0000|[dD][89a-fA-F])'::text)) THEN (entries.meta)::json
                    ELSE NULL::json
                END AS "case") json(shown)
  WHERE ((entries.kind = ANY (ARRAY['checkpoint'::text, 'result'::text])) AND (entries.size > 0));
CREATE TABLE holdfast.run_heads (
    run text NOT NULL COLLATE pg_catalog."C",
    opened bigint NOT NULL,
    changed bigint NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    flow text COLLATE pg_catalog."C",
    thread text COLLATE pg_catalog."C",
    owner text COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    holder text COLLATE pg_catalog."C",
    due bigint,
    questions bigint NOT NULL,
    labels text NOT NULL,
    seq bigint NOT NULL
);
CREATE TABLE holdfast.run_labels (
    label text NOT NULL COLLATE pg_catalog."C",
    opened bigint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE holdfast.run_tally_new (
    hour bigint NOT NULL,
    flow text NOT NULL COLLATE pg_catalog."C",
    what text NOT NULL COLLATE pg_catalog."C",
    bucket bigint NOT NULL,
    n bigint NOT NULL,
    total bigint NOT NULL
);
CREATE TABLE holdfast.run_tally_sums (
    hour bigint NOT NULL,
    flow text NOT NULL COLLATE pg_catalog."C",
    what text NOT NULL COLLATE pg_catalog."C",
    bucket bigint NOT NULL,
    n bigint NOT NULL,
    total bigint NOT NULL
);
CREATE VIEW holdfast.run_tally AS
 SELECT every.hour,
    every.flow,
    every.what,
    every.bucket,
    (sum(every.n))::bigint AS n,
    (sum(every.total))::bigint AS total
   FROM ( SELECT run_tally_sums.hour,
            run_tally_sums.flow,
            run_tally_sums.what,
            run_tally_sums.bucket,
            run_tally_sums.n,
            run_tally_sums.total
           FROM holdfast.run_tally_sums
        UNION ALL
         SELECT run_tally_new.hour,
            run_tally_new.flow,
            run_tally_new.what,
            run_tally_new.bucket,
            run_tally_new.n,
            run_tally_new.total
           FROM holdfast.run_tally_new) every
  GROUP BY every.hour, every.flow, every.what, every.bucket;
CREATE TABLE holdfast.watchers (
    pid integer NOT NULL
);
INSERT INTO holdfast.entries VALUES ('threadthread', 0, 'member', '\xde82b1cf34e0812e6b7c', NULL, 0, '\x84ad962754b03b63984d22eabde23457bd9dbb79d4381f5b2e4503a1141bb5ec', NULL, NULL, NULL, 'open', 1767225600000000, NULL, 0, NULL, NULL, 'ann', '{"run":"values"}', '\x0200bc8894d5');
INSERT INTO holdfast.entries VALUES ('values', 0, 'open', '\x0f01a8c38d48a7448dc7', NULL, 0, '\x78082b172e9c56557767378dc6269cb8fcb851d41ebb08813d8eb0c8f2714012', NULL, NULL, NULL, 'open', 1767225600000000, NULL, 0, 'golden', 'thread', 'ann', '', '\x0200ac4b2c2d');
INSERT INTO holdfast.entries VALUES ('values', 1, 'checkpoint', '\x2462ee15d8ff0da1e55f', NULL, 0, '\x816d0d48a719c2d5c8acae5554936df8e92f1a263c7fb277bfbd09bd7664ae99', 'all', 3, 'manual_checkpoint', 'open', 1767225600000000, 1.25, 529, 'golden', 'thread', 'ann', '{"step_name":"All of them","next_steps":["none"],"iteration":2,"flow_version":"1","schema_version":4,"metadata":{"when":{"$tuple":[1,2]}}}', '\x0200509593bbde0014a5706c61696e98c0c3ffcf8000000000000000cb3fe0000000000000a3c3a900c40200ff81a66e657374656480a57475706c6593c700010192c7000102a373657493c700020102a966726f7a656e73657492c70003a161a46b65797399c7000401a3696e74c0a46e6f6e6593c700010102a57475706c65d81800000000000000000000000000000007a475756964a9737572726f67617465c70310eda080a3626967c70d11f0000000000000000000000000a7646563696d616cd612312e3530a7636f6d706c6578d8133ff0000000000000c004000000000000a86461746574696d65c71914323032362d31302d32355430323a33303a30302b30303a3030a56e61697665c71a14323032362d31302d32355430323a33303a30302e303030303031a464617465c70a15323032362d30312d3032a474696d65c70f1630333a30343a30352e303030303036a974696d6564656c7461c70e17502d314454302e30303030303153a475756964d81812345678123456781234567812345678a56172726179c73a1993a33c6638920203c4300000000000000000000000000000f03f0000000000000040000000000000084000000000000010400000000000001440a67363616c6172c70b1a92a33c6634c4040000803ea4656e756da3726564a964617461636c61737382a17801a179cb4000000000000000a42474616781a6247475706c65a96e6f74206120746167');
INSERT INTO holdfast.entries VALUES ('run', 0, 'open', '\xccc33df2e54243fabdf4', NULL, 0, '\xaa7ccb11ff530108f449fd95e1a1b6550bbf7b837960bf0f964d253678e20251', NULL, NULL, NULL, 'open', 1767225660000000, NULL, 0, NULL, NULL, NULL, '', '\x02002d925b2c');
INSERT INTO holdfast.entries VALUES ('run', 1, 'checkpoint', '\xb9625a2dd40f5d91fd24', NULL, 0, '\x3bffb2a674916a0b46169e5dca90aaa7d6a145803cc10ad5256b20c0682a19fb', 's0', NULL, NULL, 'open', 1767225660000000, NULL, 9638, NULL, NULL, NULL, '', '\x0202083da05528b52ffd60a6247d5e006ac7d8171fa027950eff7f8279bb960570a8df24de4f23c06052ca2d53928907fd87365b7d016a017c01a730179ead72e14dab6ab2f0a45121b1f0ccb5115e95dc233c928ef02e66a350e18dfd0aaf1da95489f0cc4422bc325b8417682ac2a337447827b105392c11210a4894f1cc828c5716365e30a9f1c8c278b7a9e2d94cc51b2317af562d9e98142fac1678560e8157450fbc50368147d5c07b3d02cf5545bca906e2b5e8c49332f1a25ce259a8205e85da792184701e053aef21f83c87ce79134ace6b709c27c1cc8b40c13ca392794565f3027dcc23aa79270bf34c64c31b720dafd4303c211a5e507978769ae1d5c34786471fde6fe5f91655dedc11caeb25a83c79c4cb8b87cb33c79457162d2f9844ca23bf51de3d76096f6c0ac2aba54878e208125e587ae159198df0025985476f8577ba08cf5621bc7143789d04848c2763bc1817cf5a81576de08506e25189f786f3dc9e372df35a9b27352f2a343c73875756e5057a79f4967732e1d94878630baf52e14984f0421090e2998957665ea0e1d1cb3b09cf07186fccabf02478c1040601141880e0c00200085050800103020608158178763a11afee20e285cf4f3cfa89f7cb4d3c7f1e1fe2f511433c793cdc0bf1ca0d215e701fc423378877f7769eddb0f3c67d9d5737ea3c71c395709e4d89ceaba9d079614a3f8fa63fefd3697dde4c6bceeb74e63c99c6d43dcf5a93f3aabd9c17da90f3a83defad44adc1cc9bb6d62a574dda07f34a5a11cc0bd2139947d24bc9c2cdb3d4686ede486db379955e1a521af32cda31afa255f342d4358fa25112f31cad9837d10af31a759827d1a8596d786555c30b4656c3bb51189e6d8c8a86572bd3f0c42c7c7856f3e155998717ea1e1e9587f7aa199ecb33bc2999e1b542872715151d9e0592e15508c16278148243cdca9b50b7f21a5c2b4f42047a9567d456794555a1bc407f288fa8a1bc93159567a25379432e9557aabd3c21aabe3c3b99cbab9b5c5ef88ccba3ff613c327d5b9ed9a4bcb24c88f2ec286f2c515e6d64360e135e0d85125e189a12dec782f03c331e92203c191b129eb986845724bc40a12e3c7ae9c20bae9a207e4c10078f88431c4c5c2225d540613251d8740a4f99c2a6b074281c2e858384c25141e1080a47cdc265e1c20b5664d69b8d6a626152f6e3c2abb232ab6a15ddc1c2734dd9eb5553550b2f0c050a0bef2194858a859a0aa6102208098df08c7c22930d0dd914861c32c22b756284274446557592ba1d1ee8f4cf2dc8739b88372e511652168e0a2f982418f90dbb67ca3653189b8c6aa99238821eaed92da38f082f58555ab9488534846e63356eb51eac46a1144ad497fe06b3753c2d1ac744b851a160ae4808afac1c3107f432e3918c19ef32653ccb185930dec804e3554642e6c6b3181baf621a33c6a39831de63485ce339468c373162bcc60485f12426266cc5338baae29545ab78c18442f1c842f16ef4bb9fe259d95abc2a9a162f9405291e55a578af5314cf5511c59bea2df05a641578525121f02c84060abc108250e0517808f1c073e81d7813ca26f01aec093c0911681a78462d09bca2aa045ea087083ca246e09d8c8c78261223de90a98857aa14f184820212551f9ed9c34fffffbfbffcf19bef937fdf9f8b6faf87f9fc333c0bcf3b97f9c1adaf0e6fc24387d7700ae1432f5de84497e19d5e323cd3497eb9e5f2ca451e728b9ffea8c7f0e68fe0185effa089e1c91f7f586278e6c7440caffca8992f52e69b3f76f35d369fc2985f54f3cdefc3e6b6d59ca66a6e0d35aff9e535af70cd1b537332a979cd5d16fa0a15fa8610fa4014fa3edca1ef27f4e586de96d0879ec648de29925703c95f22f9e5968f5c2e1252618f53d4e38ef0f8043dfeb8841f8f98c723fa78843c1e0fb3288b604176a309bb3c5b8c51d4e5d52ac4e5898549c5a63c2ba90a6542531ed5a7bc575d9d9ad64845d95c0fe1d4f228040ae496e7600dd3f22684b6a45133a128912024bd8cc523af885048b0a80a0b1142c8a29f8f3de1208910e132b3adcc2eb325985d327b6eb66d368dd9a1362eb1b1858d236c6c359eaab1438d896a1c5e63738dc355cb543dadda5275d52158a86b15ea8a0ab51b426d0a35fd41dce02001839ba812c1808b1a66e1d576520c098318c7a4c4fc12c0e141aa0dfb072572a8b99c271b9a7f98230ded2494cf0c8dfca30e0cdded22e1427d76786da159191cafd0eef77b516890ea294fe8a2d9d125d43d7267456882b7ad0ba125b5b20f1a6a65f20eba99303235a8f95cef1934c5626d17b4f3a81e15348281523fe90c82aee911f3408d1bba7362035d2bd014d7191268716d0e988c6a5c3e6119ce55938025ca96e8bf72cf4208be55d4d2d13f4450fd185db1e4994a816e100c6180c17fc60f46b57faf0367f58feffe03e77f2bfb38f29fb8fd4cf8d3576ef27e7873d36fbf95a35607fbef5f0e84c5174c13da85187c473d4266eb814e7f7bd7c164719faca39ca9f42ea3e9ea3e598f7352d1b98ea6c56db61ae1fcdfbb8e26ab7bb21a1d247420c331020e015000a4b04a4735435e75480aa8100026d94aff0640b5c3def053b3d7e60053832d8f84a46303133d61184d56bbcff2ee9d83f16cb5f9acb1adc43b8e983947c7c822aef10bf1bbd9fbc268366a5f38af5ad4174afccf7087eb40f64b4f55052d860e7af91eef67d2574d3cf9ca6c0da4565d9b082495c5384da42279faddd4692d657e56eba2a6a846349da1a8bd3c261abb0075557b4ff95ba925de1d794d71cd40bba68e55d05c534622e4ad2972068b2615a0086ed6d418818d35e509007535657c43b19a637ab3558dd53677a9060a792c5393f82b4aa949760d5bd4a4db042bd424205ef334d33c8f739a9b2d85a6d174d1c03e31fac4c7befaec3ca53e69dc38351769e632f3ea682a8e086234bf94e4a55710033918f4d26b442092e126330b8fe4759d1bd605c10ce46052cbd7188548f0aaa6597d0e9360109804dc5b5aedb8149a2c742add2573f09d240f9b0fa9198ff6738bee32d96c392f55401810868466351a0cc3d17010f32de5d5d00ad83bea660432118755936302f5445b98c0f9cce24b6014d9e910388dd8823ed36a385c83f836972d6b146cf204b601d60a41cc048052b88b0b12827e9ea58330cbff2705a1e88ba04008f71423f42df7c0b64ac5099802b6c7624935d1f2d82a11e8bcc419aad6975f0455fd4723eca9df650051d357feed16fe7d7af92624e4cc0e3f38ab9c55abeb99bf3a616f89b617d1510e0108728c37797f294d4acef8049b2719a44381ffb77f17a0a9e8b44213002290c860519e674fa618100d580197024b22d272ab9251aef1a4e4d527384f92c8b84e922ccfdf365df56c0b71512016880b0bff955b713df49885dcbe576a8f2bb81cf7b2ca0e090ed2f5bc8e0f600069c9347c42a3a3f281f8c8c7e970d2d8f90d0d747cebd1b80636dd6894c48f0adba09dd167ad00c12509de0f127cb0f1780ce358b6ecb8ff502174f4ed48cce4a84b0cf400c70154e98f8001686b1c6981f92a470772701cf3985b32ae3a1718ac43904e3fe068c2211c06acef155c31a2338912741babf61938a3f65dbd1d48ac27c4982e998b8a0f7cc97979e65f5a37163af05fac7f463194ffe8341a4933903ef9dc561896d77be8a37cb6d777c482bdf263f64c42931d3b550fcda2478cc1e9f498b1d99d75d557262fa3db23ee871710a8c105989aacea60381f9718d027235f3726d89050fb035b4e064aa6de9ebf2a3746d4169efeaed7a64886cb73a1e747e25639d940048d3fe145497d2303eb6fe1cc05eeec1c6201946bcafaafa3383eb21dd041efb4e30ef3ce1bd627efdcd0efe2251945058f710e5c6e1cf5c3c868c7eda85563c73d0cda601d0763766608e146d03c808c73cc46d4983be7b005612861cd8958a932044523630cb00365d2b8014c10ae51409618c003794dd8e0f589330ed820ea408f68a152ab5d312cca90ccdf5194832632d8ee888c9aec2b7114412f08f759ee398f44f76e3c62bdbb6104e1eef24635e6011969b5a1174e19565efd27b231e44dc9f987b82939fec8db92e31f795370fc236e25e73fe2b6e4f843dc16850b30fdfcf0bedf4151ceebee603ddd7e5ea392823106c2dd1417fe2dce002deb114a81413c77e1b487019dc6509fe0a0109d63698ea3699f8451dd075842ed2d6dd49680cddc6011af9565218c56');
INSERT INTO holdfast.entries VALUES ('run', 2, 'checkpoint', '\xbbfad5e86fe4cbd2053e', 1, 0, '\xc6f3b625624c1005d02bb8ded8714874e9d4f81c6dc1823af8a76b3f5e0b2031', 's1', NULL, NULL, 'open', 1767225720000000, NULL, 9808, NULL, NULL, NULL, '', '\x02014c2d06bd3f1ac73f8c2f85c60403b8b188d26e1b29642862b4fc14a807dc93be10bece3a010103080801a36c6f67dc02629b4b00aa01b06c696e65203630303a20333630303030b06c696e65203630313a20333631323031b06c696e65203630323a20333632343034b06c696e65203630333a20333633363039b06c696e65203630343a20333634383136b06c696e65203630353a20333636303235b06c696e65203630363a20333637323336b06c696e65203630373a20333638343439b06c696e65203630383a20333639363634b06c696e65203630393a20333730383831');
INSERT INTO holdfast.entries VALUES ('run', 3, 'checkpoint', '\xd40aa3245863bec9d2d9', 2, 0, '\x436dc1a32132070cf070d9a0fde2be39ab5b9834a53b2e2a35fe2aff2a01f4e9', 's2', NULL, NULL, 'open', 1767225780000000, NULL, 9978, NULL, NULL, NULL, '', '\x0201c07734a6db5b461a5ecdae4b2453074e4f8302f75e3dd664786b085002757805d0453c58010203080802a36c6f67dc026cc54c00aa01b06c696e65203631303a20333732313030b06c696e65203631313a20333733333231b06c696e65203631323a20333734353434b06c696e65203631333a20333735373639b06c696e65203631343a20333736393936b06c696e65203631353a20333738323235b06c696e65203631363a20333739343536b06c696e65203631373a20333830363839b06c696e65203631383a20333831393234b06c696e65203631393a20333833313631');
INSERT INTO holdfast.entries VALUES ('run', 4, 'checkpoint', '\xc6a135739b66366b443f', 3, 0, '\xb109fafd48a7f756ae8a6305ec99a39b9c8804887438257d62de3cd9d65dfefc', 's3', NULL, NULL, 'open', 1767225840000000, NULL, 10148, NULL, NULL, NULL, '', '\x0201f7cee7ba95a726d61206894d00ca2d2bde5b08e2ad88fd8f12b78a1a61b7645b14a3d655010303080803a36c6f67dc0276ef4d00aa01b06c696e65203632303a20333834343030b06c696e65203632313a20333835363431b06c696e65203632323a20333836383834b06c696e65203632333a20333838313239b06c696e65203632343a20333839333736b06c696e65203632353a20333930363235b06c696e65203632363a20333931383736b06c696e65203632373a20333933313239b06c696e65203632383a20333934333834b06c696e65203632393a20333935363431');
INSERT INTO holdfast.entries VALUES ('run', 5, 'checkpoint', '\x9b046dd10ab5cd4cc3b8', 4, 0, '\xfa23d6371f37bb231fe56617850cd0b9e1ef524cf7a3f4297aafbeeea9d53e91', 's4', NULL, NULL, 'open', 1767225900000000, NULL, 10318, NULL, NULL, NULL, '', '\x0201e422668bddaa981978953e1e3a5a562d8276bf6ffbe508358cf32c1e1b74052e3aa02025010403080804a36c6f67dc0280994f00aa01b06c696e65203633303a20333936393030b06c696e65203633313a20333938313631b06c696e65203633323a20333939343234b06c696e65203633333a20343030363839b06c696e65203633343a20343031393536b06c696e65203633353a20343033323235b06c696e65203633363a20343034343936b06c696e65203633373a20343035373639b06c696e65203633383a20343037303434b06c696e65203633393a20343038333231');
INSERT INTO holdfast.entries VALUES ('run', 8, 'checkpoint', '\xe3affba8302f40e3d612', 7, 0, '\x9f3012ba7e525a4e8d3a7f1e9e1cf7e4469822bd810e6f466b1a96be38a9b268', 's7', NULL, NULL, 'open', 1767226080000000, NULL, 10828, NULL, NULL, NULL, '', '\x02013e52f5f96a0841bbcc31f1bec3d2fe0c5cbb9b3248bd1e86ca91d56919febf802cecf56e010703080807a36c6f67dc029e975300aa01b06c696e65203636303a20343335363030b06c696e65203636313a20343336393231b06c696e65203636323a20343338323434b06c696e65203636333a20343339353639b06c696e65203636343a20343430383936b06c696e65203636353a20343432323235b06c696e65203636363a20343433353536b06c696e65203636373a20343434383839b06c696e65203636383a20343436323234b06c696e65203636393a20343437353631');
INSERT INTO holdfast.entries VALUES ('run', 9, 'checkpoint', '\x86cf73937345ab0cf187', 8, 0, '\x0288b78f62d1a484eb21a195f49685a7fd667cd7c2f5b580fcc2c2c848157923', 's8', NULL, NULL, 'open', 1767226140000000, NULL, 10998, NULL, NULL, NULL, '', '\x0201b0be9e7e38892e114919243ccd7ad81aafb5159b0564748571a2c357f8a02538da638261010803080808a36c6f67dc02a8c15400aa01b06c696e65203637303a20343438393030b06c696e65203637313a20343530323431b06c696e65203637323a20343531353834b06c696e65203637333a20343532393239b06c696e65203637343a20343534323736b06c696e65203637353a20343535363235b06c696e65203637363a20343536393736b06c696e65203637373a20343538333239b06c696e65203637383a20343539363834b06c696e65203637393a20343631303431');
INSERT INTO holdfast.entries VALUES ('run', 10, 'checkpoint', '\xec9ee0a9e44e08d76b42', 9, 0, '\xcdf963af1102636133e643e0221daa4fc7cbeac4c8c8ef3275e1a7dd3b413bbd', 's9', NULL, NULL, 'open', 1767226200000000, NULL, 11168, NULL, NULL, NULL, '', '\x02010dd81e0f9c5a079801823096bed1fc0587fe19700bbe9edd4a80b6ba6a0a3aa3088ab65c010903080809a36c6f67dc02b2eb5500aa01b06c696e65203638303a20343632343030b06c696e65203638313a20343633373631b06c696e65203638323a20343635313234b06c696e65203638333a20343636343839b06c696e65203638343a20343637383536b06c696e65203638353a20343639323235b06c696e65203638363a20343730353936b06c696e65203638373a20343731393639b06c696e65203638383a20343733333434b06c696e65203638393a20343734373231');
INSERT INTO holdfast.entries VALUES ('run', 11, 'rollback', '\x106410eda4d643c1d61a', 4, 11, '\x7bbb43e1a95ac70022b16d0a542086f5dccff9f8e0e77bfe5a553a46f681edf4', 's3', NULL, NULL, 'open', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"target":"b109fafd48a7f756ae8a6305ec99a39b9c8804887438257d62de3cd9d65dfefc"}', '\x0200bc2c7b9c');
INSERT INTO holdfast.entries VALUES ('run', 12, 'checkpoint', '\xc6019de7c6ee111bd569', 4, 12, '\x9b12ba6b0c50f8201d85113b5c92dcad7a4241880966b64d33974e8de805409b', 'after', NULL, NULL, 'failed', 1767226200000000, NULL, 13038, NULL, NULL, NULL, '', '\x020314ded2c61b438000dce914d2d5b913c183087e5886fa09803653b2420223158547b7bb49080bda1628b52ffd605a0a1d1b001a59f00a1dc0a5301cbfbef3d5f9ef5c035ae3412f354929654a5bb20a25b1c32f12b000a300a20064d6962fb28796279a6979d359b47c897c43f9813a36941f9aa3a1bc1079281f64d3a1fc996e86f2e6920ce5cbc3104379f24d795baaa67c1da5293f38c4537e1c364c79b167ca876364ca5fe34eca5b834cca576528294f0d92f2a6a12ae57bed20e587928c941f310b292f11745199c1a2fcb55151de8eca51bee8da284f9e19a2bcc92751be6714517ee8f46ee04748ec065e228e6ee0632002182060e140028202850234481080c0820184830383179186f910a309f317452361dea26a775143eda2eaa2847c5131bda8b0b9a8a85c54c445059995bf8b292b6f17662b5f27ad95a78bc1cafb06122bdfeb84951f8eccaafc9cb5aabc9c50958f9b6a953feb305479333aa9f265e7a8f2647354de662b2a5fb312951f6cc4547e8c6aa0f2621d2a1fd6102a7f65742e6f3583b97c551db93c15d9e55d3575f9d6dcb8fc506671f9a94eb8bcd459cb4791abe58f66a8e52d54322ff690f9708490f96bf86cde1a61365f1593cd53c336ef0e1e6cbe6d8ccd0f2587cd4f2daee6a554351f1da19abfa1d49ab78164a8f91a8ea4e66998a8790f2e1bcc77b0a9c1fc308c79303f030d1dcccb7033988fa195c1fc8ddd8d799bb18df99a8a1af334e431ef29e998ef4ccd981fc646c6fc4cedc4bc4c4dccc7d091983f195bcc9b5854cc979846cc938c8879cbd585f90a0d16e607e951981f193bcc12b581f83ba38178bbf1407c1d0d03f1743310ef6b0cc4f7cc86f8e1a686f839f2102f271de2e33c43fcd9c5106f369c105f5625c49391106fa30af1b51884f8c12c42fcd85d102f560be2c38c82f8ab71106f5543105f2513c4534510efba33dfaa333f94cffc54cfbcd4998f92337f7466dec8cc7c119979229b79d360e64b63e6070a333f74655ea8cc0751993fb7cc9b87325f96324f8e326f1b99af8bcc0f0e3b80b3a8210414820808c57df637a0a324391018a131d5030f33970eb5e2d850e761513d581a0e5593cc4c226272ef92364b02afca9c28fb335915c93a228b00a9fbdeb577179bbbcbdbcdb8dab966f713bb8a93fa24458b740b52d3f00b0350f44be112e342a16b7c162e343688dac6e4a8ae4a421462d1c0aac32a81580856dd1a076ebef5306d5375c17fb61f5537594bfcc74ec98465b4321188c07b7337d1d0f955');
INSERT INTO holdfast.entries VALUES ('run', 13, 'trim', '\xe900b4c0cc3f8ef9153f', 12, 12, '\xe18c90b2927ff918d807ce1caa754fa78ac536dd1260fe3531f18fa4f1398c7c', 'after', NULL, NULL, 'failed', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"dropped":"6","behind":{"6":"fa23d6371f37bb231fe56617850cd0b9e1ef524cf7a3f4297aafbeeea9d53e91"},"rewritten":{"7":"5c9a879801490b6bbea2119cbe07724749b35401fd003f9db97827817f9f532a"}}', '\x0200a62322bf');
INSERT INTO holdfast.entries VALUES ('run', 7, 'checkpoint', '\xb512ced2f5182452cabe', 6, 0, '\xc760e4cb217f829393f21e13fae49fe3b87d3cecbeb34e622a545133dd70b038', 's6', NULL, NULL, 'open', 1767226020000000, NULL, 10658, NULL, NULL, NULL, '', '\x0206ed86b1a7524c5150b5877d5e8e747142536f40480c1683049cc71fde0fafc15d5582ae0d0d28b52ffd60a2285d69004adafc191fa027950eff7f8279bb96c5a18bfa4de26ba9aa6152ca9d52928907fe739e39a701920196011357f4501317e8541367b2307125a2d2274cdc90d127ce5af489ab4f5c78284fdccd7be2fc409eb81ac71347ac62df891b0ae7d389b3d268e2aac6a589fb9026ce63b5074e1cb5e6c491349caa9938eb3f1357d6cec4851367e26eca4c9c3f3579a52322a3c048599c99dce2caa416176c687137b1381b55c5d5fa8a237b2b8e56acb8b1a938315a88b36a08715577880b6514e25e0c712e4b886b553d8e8ae171acfb71537d9c54f9380b258fab40735c082138eee18e7308755c03c971146a1cc75071dc046b9c8487c6d9f9c6d5ab8d0b3735ee67e37c93c6f5378aa3b7288e67a0b8f9294e5ea538f389e2cac1341477539c6d8cab4d8a71e44a601c3d72c68d45cc38b194715621c695091917fa19c6bda630cea5b6268eda878963a73e7153914f9c74e889b3b2d3c4851b27ee2627cef74c5cad64e2a89489232530b7b8218b136ac5192bc41519e202c3e3cec799c171251d47acc6916ddcb071c239c559497165c5b87033ee26e37c9bb8da278eda89e370e24664e26410988ab33eaeac71e1147733ce9fb81e6071d4384edc489c040203000a0c18c0c00209022828e08001010204b48538d6ad42dc945408711602c3435c08611ee21e1c8238c435d00d7114ca28c431b414e226483831c4d95913e2eac50971e10e12e27e4a88f3edf6b8fe638fa3f7f5389e538f9bcb4bc2e3ccf71f57aefc71c1643feef6e3ec711f5793c5f4385a841e37164be9795c95328f0ba5e5712fe5712e6d8e6b29e6382a5d8e6329e5b829a59ce03823fe8e2be2dc7181783bee443bce4422eb382216398e4422c70d5188a5e38cb4715c911ec70552c671271d677284c6608d2392c6aa166d4887c6d5b024342e0cfd37ee430f6fc18debd04e6e1c0d5b6be338f45086a7c69990d4b812161b178465e32e147e1a5721a771242c691c8595c68d506846a3b8b22a8a0b762b8ab33d505c8dec758aa3554f7163164c7156648aabb2525c2897e25ea5385711c5b54a1447354471ac408a9b9212529c850fc55508c184e21e4203cd1847a16c8c63288d711324dcc5383b598cab5705c685db81713f03e37cab33aebfcf387a79c6f134336efea21967be9571e5be8c0b262ae36e3b506988261967b5615c752808e35a611c758471acdd8c2a167114025943a1d95c6a26cc871eea94c69c99cb04932ab12041e62634995a92ca478248cbacb5b2b6ac9d602d6f2dd9dad6da93b58146ad31aa8951458c6a45a52a6a4351ffa20617d55a5469b143c5128bed145b6c0816585a05b6a4025b86c0f681bd1da60c0dd32a0a530b856928cd54a6c1a63553530c97bebfb4f7a554bdb4970ee952292f95cfa55272a9c8a542336959f0c405ab9bd1563b6d4c6caab578e2aaacccaa58753774e25a54e6721555b11317e8e1d2897308658163a1a8421f8284f99c26ce5effbdd1e9ed03bd3234713c4968e2e6b757953fe53638dcb7c9262fd948c4148f94c99449851317fa09f69a622e51b5d6076a6f67a7f8a9c82da5b52cbb69262e5871c8f14cc950e636b2a2b2580e467be0037f9ab719ac462ab14e15122985f360e58c4c5c5955840eee328bfb90599c87cae23a64b7607134142c8e432343b63813aac5951085c8e22e441667a14f6971151a8b23a1b1380ac9c5e24648486a15672655155726ac8a0b360f15770b1567bb5d9a2aceaac68aab3ab1e24259988a7b712acee54bc5b54aa4e2a802532c35ce7c9f1a177cf1fdc0c6d567e3c8371b47131b3716b371d6db34ae5ad3b8d08769dcebbea59e9dc64d5fa307695c91342ed04f97c6993e248d233a6b46ff94d1858ca71a3f647c8df14671e6ad28ae3cf1e75d1437149e8ae26c3e45713597b96b81e23e0f73b387f983c3bc6e989328cc652e81e24c7e3bc5953cc883fc146779e5748a2339e52397971decdbb66dda638b6d75fdda754d9eda5c0e64b289e24c4a2679c80736ba4871141c48710c7e08a69bf7dcbf87e27cd7505cef8f3dee78ccf18c656c62df96b2501cd9122a14475b4e4271638b2d1da138ab854428ae6aa1593d53565b4d66ab5bb5fa81acaed36aab6931726b453e55918da1c845f6b8c8252d32858a7c9b2217b96581ae50816608810e7fa0e9e0069aa6405719e876021de8937d4caa8f8be163f31f7bdc318dc733322566f1a52cae048b496eb1c523b558842c16a1c52263b158cca44c82c9cd769296713521bbb08ca3954c193726361c23c6594d55289b13e35e26c6b9d82215b1684aaad672083e19f7101e5e32aec118880c83fba812b9848b1a86bdd576120c120661388c42cd0f12c0013aa82cfbff3481d7af35447e97d03b5f8ac924665d2befa861bb07cf501aee96d8f2d39ba57b3af3b03acdfc6ef36c52bfaafa366f8d4cbf32bf9d512433bc6f11e132a570841b9bf236e6277f2b54f21c57a240d96c9d1021392e4a7c443f07146492a6e0c43ad230bdf98fb2b03d63b11d609215cbe0b4eaf01ed4cc828cea45b90161a78f4615c0b715bd743c8aa25fc6eb851bff785bb759921e1ba2038827e151d67725086717f579064d689663f48afdbbb0a4914bcd3a818945bebc0a3db6bcc7e68075655b9dbf9a9253f9be2a9a52b0433f1f5498436fe50c6ce8c230cd3434b550d219faf68fa218faec62ea421776e867a11919a42bf423f79352e867f5722774313bbf84261e397611fafd367541e8ed96e2075daecce5a0391286a541ff9c4b49063d162b7641f78cca5d41d3192802924210b4bd479107ead910873a0d54a64099af634ca074b56138192971f987a5b2567d82658796a47da56721386d15a5e9283f2228758c0e9604f6526c0c021d865df857fe83b7fd0d3a10a6fe8eed0f79feb5b3ff26ffeadbbfe15fb0f25fefaf9cfbb7fd8588fa45ec2ff2f20916cbf511ca2cd2e04362f89f52e318f69721084680c2a5f14d381555f0149f8ab7e67f612a54c1537c2ade9aff85ff2b82a7f854bc357fc95c3ae8f4244cd0ce313a9eac42d046bb80f850b8a505d8946c297db351ad62eff7d474dd64d1d46ae4bd489a4e61a2d3274ff2af78169fcf2c19573c8b8ff2bd56e48e7f674ed331b98806fc7abc53bb2fc8cdb8ed4bf355affaaa61f3cc78b8269cc3f7544cd06256402fc9f1d62f7d75c1c65730d7a8b46a8b897a52f9c655916afc137253e9b56afcecc3c5745171cf94a2a8de1c7f1a1bdb43d5de4e79375131deadbca6b966bb5d93ccaa2aae9921d17b6bba9cd9a349e91469cd9a3146acb1a657808dab49c86f2eab29b8f7b06a34bec94d3545e61d4d8d46aea8a5a6c6359f51a3fb0437d414329ef534227e369de6e1ade5a6615904b18fe073c871a13ec94bc94f1a0d9cea86342c66428ec63211d746538e6299ab6af59241b83f8c9a4bb83f8c9a4bb83f8a622f1984fbc3a8b984fbc3a8b984fb1faa26b8e34d5cf455bef53c29bcf98fbecbf7e6a94a4a66eb778f3cfc3d843d1ee1b356b86580b1279384e8f2bd7b8ea2a7580e19e1cd7f1474adc586d662bd7b344b958913af2211132a134d61a2d3333b2f9156a4ec10131ef1048d6e05325c02fe26c8d666776f2e6cb0e66a959bf2894629b88d0b0961524fec20a4f2bfa182306f011e084931fd84cc653ebe7dc9390129f51d1c4ed22169216f153f544de60c88f5318bd8aaff678419f5bf08e033fdafdf45e19bb49704ea2b2734b2ff5c95cb5bb13ccbabf3e4d69bb74080f2294fb183d6e4b873c95cf2ba30af3b9925fd2cf00e20164f302aca020264e9da393a2e04f2cc56fa1fd1212a7249b0e45c5a53952ce71a9d94243e017892898cc792649870a0c0f9a96af192b945b81862e14ab967d9561ebcc8c50d25fbb84bf426baa1ce21d341fa4feaf8290378a5eec31f1fdd381f381e25a4831863d333b4b6e39d47cb30703c238847316a83419dfd2ab402e3f074eee3a08a06eb85470a8f856c473743e9a263a247ba96a32f319006381ec225110bfeb1ebae512ccc87657436830798a7cacd4ad535a016c2c7771a4a2c29826532a4a5450a9e494d7d53701e955508eb4aa3ea5d8306faf494f4ba9e56cbf13f1f90133263454a9030e86c2cc78f378a1061c652aa917b03b9e4fb35ddb075de9b1a95607b92a338ec0d1d936112daec8c837ae8123d660c9c842e19bbdbd941d9ca583102983ffdc0885a085f3ba64e701d5001a53806f2d548d463321a3267bf169567202da93fda112a071cbdcde602f3da5b7f0278163d3bf2a5ca800c7cd4583d1dc3946f586485283376b054ae861401657da34bfda37a1f010e70a1a7f7f8cb3c1d0fbfc8d36ee846f1b41d2d05cff3077e1d978161a3b52318c549d835c4832a5bd7fb989a1d62a211600392702ec04830732d0e9310e65616bf10cbb50eb53a72c78056a0e81897c184473e426049e73ff8ca7a8d9a2515cd8105443be0112e2a12e98ec3771ae26dc1686f80810ce6b3e791be7d351e95d2cb377c3e416867a67b0498a9de916206734770461ee696cf94da3457bb89e4f56684b30084df4373912afa602aaa449d1b04959053b3900ad2682a504619198515a833bc70048cc76ef644011386531fe3874d37ffa5d25a3930618892bb38b78828f627ab3e4212fa9bcf03a99f731b4f736a83c2761942753884d26128457f08434db2810dd936b0199bb78191c4b210602b');
INSERT INTO holdfast.entries VALUES ('run', 6, 'checkpoint', '\x655b079dbdd2d3154c70', 5, 0, '\x18fc2e8b23e0e33cb4ac1e787b18ef2459d92e3b273b6091c25071e30f5ca031', NULL, NULL, NULL, 'deleted', 1767225960000000, NULL, 0, NULL, NULL, NULL, '', '\x');
INSERT INTO holdfast.entries VALUES ('fork', 0, 'open', '\xd38964763390c961ef6e', NULL, 0, '\x35c7eec86fc65a3ab79883af9d4c4b3dd61a4d00a11d72d59eca028d19af32f3', NULL, NULL, NULL, 'open', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"birth":"fd73c0f5f6c5609d7d57","origin":"run@2"}', '\x0200c4d1c9f2');
INSERT INTO holdfast.entries VALUES ('fork', 1, 'checkpoint', '\x6856bfdaa91ee42ed126', NULL, 0, '\x4b7c940dd5d31a01fbc87bfff0207ad69f8e9cae759a7f2d071deb2e27374101', 's1', NULL, NULL, 'open', 1767226200000000, NULL, 9808, NULL, NULL, NULL, '{"origin":"run@2"}', '\x0202e8a47e2528b52ffd6050257d60002aca2c181fa027950eff7f8279bb960570a8df24de7f03003329e54e29c9c403ff116a39880172017d011377f39e383f9027aec6f1c411abd877e286c2f974e2ac349ab8aa7169e23ea489f358ed811347ad3971240da76a26cefacfc495b53371e1c499b89b3213e74f4d5ee988c8283052166726b7b832a9c5051b5adc4d2cce465571b5bee2c8de8aa3152b6e6c2a4e8c16e2ac1a425cd51de2421985b817439ccb12e25a558fa362781ceb7edc541f27553ece42c9e32ad01c1742088e7bb8e31c421dd740721c851ac731541c37c11a27e1a17176be71f56ae3c24d8dfbd938dfa471fd8de2e82d8ae319286e7e8a935729ce7ca2b872300dc5dd14671be36a93621cb91218478f9c716311334e2c659c5588716542c6857e8671af298c73a9ad89a3f661e2d8a94fdc54e413271d7ae2acec3471e1c689bbc989f33d13572b99382a65e24809cc2d6ec8e2845a71c60a714586b8c0f0b8f37166705c49c711ab71641b376c9c704e7156525c59312edc8cbbc938df26aef689a376e2389cb81199381904a6e2ac8f2b6b5c38c5dd8cf327ae07581c358e1337122791c020800203101c580000010a0a306040c0000171f4be1ec773ea71737949789cf9fee3ca953f2e98ecc7dd7e9c3deee36ab2981e478bd0e3c662293d8fab52e671a1b43ceea53ccea5cd712dc51c47a5cb712ca51c37a594131c67c4df71459c3b2e106fc79d68c79948641d47c422c79148e4b8210ab1749c91368e2bd2e3b840ca38eea4e34c8ed018ac7144d258d5a20de9d0b81a9684c685a1ffc67de8e12db8711ddac98da3616b6d1c871ecaf0d43813921a57c262e382b06cdc85c24fe32ae4348e84258da3b0d2b8110acd681457564571c16e4571b6078aab91bd4e71b4ea296ecc8229ce8a4c7155568a0be552dcab14e72aa2b85689e2a886288e1548715352428ab3f0a1b80a219850dc4368a019e328948d710ca5316e8284bb1867278b71f5aac0b8703b30ee67609c6f75c6f5f719472fcf389e66c6cd5f34e3ccb732aedc9771c14465dc6d072a0dd124e3ac368cab0e05615c2b8ca38e308eb59b51c526aee8a1262ed0a926ce6461e24a44a54f98b821a34f9cb5e813579fb8f0500e56812da9c09621b07d606f872943c3b48ac2d442611a4a339569b069cdd414c3a5ef2fed7d29552feda543ba54ca4be573a9945c2a72a9d04c5a163c71c1ea66b4d54e1b139b6a2d9eb82a2bb32a56dd0d9db81695b95c4555ecc4057ab874e21c4259e05828aad08720613ea789b3d77f6f747afb40af0c4d1c4f129ab8f9ed55e54fb90d0ef76db2c94b361231c52365326552e1c4857e82bda6984b54adf581dadbd9297e2a724b692dcb6e9a890b561c723c533294b98daca82c9683d11ef8c09fe66d06ab914aac5385444ae13c58392313575615a183bbcce23e6416e7a1b2b80ed92d581c0d058be3d0c8902dce846a71254421b2b80b91c559e8535a5c85c6e248682c8e4272b1b81112925ac5994955c59509abe282cd43c5dd42c5d96e97a68ab3aab1e2aa4eacb85016a6e25e9c8a73f95271ad12a9382ada421ceb56216e4a2a84380b81e1212e84300f710f0e411ce21ae886380a6514e2185a0a7113249c18e2ecac0971f5e284b8700709713f25c4f9767b5cffb107532581e24c7e3bc5953cc883fc146779e5748a2339e52397971decdbb66dda638b6d75fdda754d9eda5c0e64b289e24c4a2679c80736ba4871141c48710c7e08a69bf7dcbf87e27cd7505cef8f3dee78ccf18c656c62df96b2501cd9122a14475b4e4271638b2d1da138ab854428ae6aa1593d53565b4d66ab5bb5fa81acaed36aab6931726b453e55918da1c845f6b8c8252d32858a7c9b2217b96581ae50816608810e7fa0e9e0069aa6405719e876021de8937d4caa8f8be163f31f7bdc318dc733322566f1a52cae048b496eb1c523b558842c16a1c52263b158cca44c82c9cd769296713521bbb08ca3954c193726361c23c6594d55289b13e35e26c6b9d82215b1684aaad672083e19f7101e5e32aec118888ca310c81a0acde65233613ef450a734e6cc5c2698548905093237a1c9d492543e12445a66ad95b565ed046b796bc9d6b6d69eac0d346a8d514d8c2a62542b2a55511b8afa1735b8a8d6a24a8b1d2a96586ca7d86243b0c03283aca812c1808b1a66e1d576520c098318a7a4d4fc12c0013a2a0dfb13ce393eaad80c2e4c78e4d2ba13165b78445ebf629bfab17460b56dabee57b777aac75721a574b3431b077d7268eae5646ea87d98281a9a7128e9196af08f400ccdee22cf851aef1065a17919645fa19ef743a2d0f4d5e34da86b76f8129a30720c45a8f5db3083d0b4b7ca0fba7c654e07454f980a1b9473ae43326840b1541694f6a8fe0a1ae18192d6e90041d77bd4f6404f1bea5e4f039d1628fd3ab4046a4f6da426537d5c2461c9ab55b8c1b2654bce5f99ba1082b58a7ee9282b22e83d463f4b7e7b29b40fe210869ef07ffc8368fbcb75804ffdbddd3fe3fc2766ff237feadb5dc31f54e56cef0f9b7bdaf65f20eae8b17ff8cb0f58e41ce14e127883afddb4c3e3754ded8fa6008420295c078974aa7ad2045dd2982e3a692af4a4117c4be13a24d2fff48411744961ba88ac361db0254abb5c2514082e56e52c06a9cb66511926029c245beddf1e54e3b0d7fdd4f8da74c7d4f8e59990b498cc44239c20094de752b0be630126a1690e65688bf38e4966fad1f1ae8876fcda7fe77b5f5b9a19ed6bcbab2cf51509fa19ef700d80dde0a98ea0a53081dedde3d52afa0a49115fa55a03a855274d18928a331e8854013c593745afe53d3f7bbb10292a2d4d71280a0d0f80c61298aecad053fe566a8977465eb35e33dbaed9679531d7ac90c8786bd69cb1a3492b14f1cd9a2d461863cd5602585dcd06df23560333bd615563b34da05473803c97a9e1f795a3d470bbc62e6af86dc2146a38c4739e26609e6c4e4367cb43d39c2e24d8c7cd27fc00571f34a6d4278d03a7c622cd4c665e1d4dcd113146b3179aa8141d72a40363566a0b0f346ad4650f6111b5bd7fcb71247132099914333daa2112bcaa69569fc324180426e1f796563b2e85260b9d4a77c91cf9b69207ef4330e3e14bdc3a5cc627e5673a6d081a03c6e8a24e0150101000845d57b527b428f7ee77b30099706155d031e13f5110263c3f93f9121e8a643a8457230220695aae0ed719beed65cb1a0d36794042d2b52c3665c2520a8ce28184109227ed2010f1bf4f41d8fec253201c7eba1e92157bac5aa5e2040840d3eb99e29a68b96f9538542fe40ca9f5bb8b08555fd00874eae319c069fac5bfc185af9ede81690938b1ff8bde05a76a29f7ecafcee45b9df20539ca2190831ce84dbed8949e926f28c6b5933ce950e0fbe91f4548aa6a96aa62a158204258d4cff3b52902440f16c8a5c192b1b4bcaaa49a6b065292e413de93fc32ee4992c483b79f4535b7052c0c1841e38405bb7229c0033d702177b12bb5c73d1a84dcd82487b483441dace36018005d311afed0e8af7ca07ce4723a1c34767a43831d1f7a5451031f1b2da5fe510736a8b2345a2b48740fc5c90f723fd8391ebd3816293b2e3c540c1d6f3b123139ae0e0325c0f128593d212018dc028e14604e95a3c31c1cc6bca546b9abee350868e4a2d38d50b2e0024ab9f3d90a6e84eb17a3137dc72a9c37c9a87cd74307b2f5f408ab14c402e1845e72861ebaee962b84cef817aa2ca358d971f4398d7419784f3eb75f0cbbf51efa289bed15396260cffd1896496672674ea58712d14363fa285acf18e0cea0e92ba39bd1acc1fb210b24d42731984a2c7550801f8718109191881b136f48a4fd832d350325534f8f7f851f2b608bcf7eebb552d243e479e8fc91a855ce6d208ac6cf594242df80c5f8f579f3c0376b0ee500da31673cd8511f1f810eaea0a7ef888579d40dc8c9a3682873f18c1835050f34073e6e5cccc3c268977414426397100cc2605d8e31686648e846043f208e7369a370ccd1733885b0d7a83245ac3632944423700c8003a5df98044c97af514c9668e1419845d87674896e0ec820ea488fda5071db22336cc8909adb5104075d64d0ecc818c5ec2be928865e8a0f61cc228f48f7ee3c62bdbbc688e1eef28d7acc031971b5b1d79e32b65cfd5f316224cdb3c98fa07936f849da67833f49f368f02768cf267f82f6d9e047d03e1a1732fdfcc0ae1e82049caf9d011474f3f392ca92829d2acf27702dbff56c98b51aa72838c6e71648ff14b05324f5130a0add5934e5783cddc970aa778075a8b7251bd8126433b65d84d7605922a315');
INSERT INTO holdfast.entries VALUES ('gone', 2, 'tombstone', '\x01342e58bec13e8e1225', NULL, 2, '\x111f96b36584c9b6b0200189d2a15b95e260f9feba426c02d1492138aad6cc2e', NULL, NULL, NULL, 'deleted', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"after":"f663cbc6b4e515939839b09e5fa12d27471df5d91a4a164ae4c06323a3cd8f8e"}', '\x0200d88b36c3');
INSERT INTO holdfast.entries VALUES ('paused', 0, 'open', '\xe4036ad91cccee3fe2a8', NULL, 0, '\xa6d10a1e7e59b105f38d1370821b5e3aae30c64fdb5c72c9079c36943d20b08e', NULL, NULL, NULL, 'paused', 1767226200000000, NULL, 0, NULL, NULL, NULL, '', '\x0200c3d10964');
INSERT INTO holdfast.entries VALUES ('paused', 1, 'checkpoint', '\x491e907cb6fda54e5b8a', NULL, 0, '\x5939d733ffa8b0f352eed8547117e2f18cbb920bebd4d8beb51bf7d812d57da5', NULL, NULL, NULL, 'paused', 1767226200000000, NULL, 17, NULL, NULL, NULL, '', '\x0200c7864ab581a87175657374696f6ea6676f206f6e3f');
INSERT INTO holdfast.entries VALUES ('store', 0, 'member', '\x6541e833549a28ad7db6', NULL, 0, '\x704511fcbb293381b7519f88777569744d724ee46447a30908103d509bd79ea8', NULL, NULL, NULL, 'open', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"birth":"ad53e34fecb0beee56e9"}', '\x0200fdcb373b');
INSERT INTO holdfast.entries VALUES ('doubling', 0, 'open', '\x5924f09e0b50b09a4bc9', NULL, 0, '\x2a6b46e78e35cf52c7f6ed7c87427bcba6157118532e364f84b0e172614e99fe', NULL, NULL, NULL, 'running', 1767226200000000, NULL, 4, 'doubling', NULL, NULL, '{"flow_version":"1","structure":{"parameters":["n"],"code":"4cb5bf63e29bf79b"},"inputs_hash":"f3e0792e105e2bfe88e7b3bab5097b93a59a8c5b239fe3c6f87a8d0f72ab9032","birth":"2e20ec4007c70ab951f8","holder":"0|34ffa0cf1ceb15241b19|golden|golden|1|"}', '\x02009d86b26281a16e04');
INSERT INTO holdfast.entries VALUES ('doubling', 1, 'result', '\x0f655cd00ff87c8ffbe0', NULL, 0, '\x612d845c7777bc317bf1fdbbbd153ab798079002e0048dd6768ad425f9037725', 'double', NULL, NULL, 'running', 1767226200000000, 4.452600842341781e-05, 1, 'doubling', NULL, NULL, '{"flow_version":"1","args":"GkgW2X+Zv0x6xuoAXTxukL7U"}', '\x020065ab575d08');
INSERT INTO holdfast.entries VALUES ('doubling', 2, 'result', '\xc58e6f02fbe74f638e47', 1, 0, '\xab93b92d0e14733a2023bd847ec8b95f7447187e1b63bd41e7b9c92084565593', 'double#2', NULL, NULL, 'running', 1767226200000000, 1.9458995666354895e-05, 1, 'doubling', NULL, NULL, '{"flow_version":"1","step_name":"double","args":"DZ++MATnxXKBTD5kxMdc3quQ"}', '\x02005f80859d10');
INSERT INTO holdfast.entries VALUES ('doubling', 3, 'complete', '\x38138f86bae694aa37cc', 2, 3, '\x60e548ac833491032c56da991613ba20e8c046afa2840ee92cf2a281a16eb0f9', NULL, NULL, NULL, 'completed', 1767226200000000, NULL, 14, 'doubling', NULL, NULL, '{"flow_version":"1"}', '\x02008a80607282a46f6e636508a5747769636510');
INSERT INTO holdfast.entries VALUES ('counting', 0, 'open', '\x947a0f1e9cb9d33779b4', NULL, 0, '\x04038e174e45cf842184a9a559c7198583251f60a298b03d878be69a0ed97858', NULL, NULL, NULL, 'running', 1767226200000000, NULL, 10, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb","structure":{"entry":"add","nodes":["add"],"edges":{},"routes":{"add":["__end__","add"]}},"inputs_hash":"3fef49fcbf39827f7259c780545cb69ae9ae44b800a815336675fc83d65feddc","birth":"bbc4c6c043537825e971","holder":"0|34ffa0cf1ceb15241b19|golden|golden|1|"}', '\x0200421952a282a16e00a47365656e90');
INSERT INTO holdfast.entries VALUES ('counting', 1, 'checkpoint', '\x2c9db6ed0120f0605954', NULL, 0, '\x63ff46e0fbe6f0021c78025bffa178fec8a65c17aed61b794ac75118df794b96', 'add', 0, NULL, 'running', 1767226200000000, 2.6319001335650682e-05, 11, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb","next_steps":["add"],"iteration":1,"visits":{"add":1}}', '\x0200a69ed87082a16e01a47365656e9100');
INSERT INTO holdfast.entries VALUES ('counting', 2, 'checkpoint', '\x1cb19e02d9deeb371b4a', 1, 0, '\x4288e5375c15fbf850ee91150502681c15d4fb8f8a4e6e53981c8431e450e7ff', 'add', 1, NULL, 'running', 1767226200000000, 2.2854001144878566e-05, 12, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb","next_steps":["add"],"iteration":2,"visits":{"add":2}}', '\x020043c87af182a16e02a47365656e920001');
INSERT INTO holdfast.entries VALUES ('counting', 3, 'checkpoint', '\xf521766c9d29e96d102e', 2, 0, '\x6bb9d49c4c45b90ac0ab5a521d267071817e0a110ffab1ef9328acbdecdffaed', 'add', 2, NULL, 'running', 1767226200000000, 5.0664995796978474e-05, 13, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb","next_steps":["__end__"],"iteration":3,"visits":{"add":3}}', '\x0200369e10ae82a16e03a47365656e93000102');
INSERT INTO holdfast.entries VALUES ('counting', 4, 'complete', '\x0239114394530193e83a', 3, 4, '\x270b6fa6142ec612c534a6eb389fa2e03db9e5f5f5563368d7af7a8bc7c855a8', NULL, NULL, NULL, 'completed', 1767226200000000, NULL, 0, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb"}', '\x0200b579e3ab');
INSERT INTO holdfast.entries VALUES ('approved', 0, 'open', '\xe75543c95c1028dc3b86', NULL, 0, '\xed6bfd69c7a870fdac994af8f3a68e7c3a433c72f3740d10d343d45165885ef4', NULL, NULL, NULL, 'running', 1767226200000000, NULL, 4, 'approved', NULL, NULL, '{"flow_version":"1","structure":{"parameters":["n"],"code":"fb2ed3a1dee0aa42"},"inputs_hash":"f3e0792e105e2bfe88e7b3bab5097b93a59a8c5b239fe3c6f87a8d0f72ab9032","birth":"2c9e1aa7a7ffa7d72142","labels":{"team":"gold"},"holder":"0|34ffa0cf1ceb15241b19|golden|golden|1|"}', '\x0200971e7bc181a16e04');
INSERT INTO holdfast.entries VALUES ('approved', 1, 'result', '\x56e5c094b1d8c1c4c156', NULL, 0, '\xc78b098bdea347dac8bf12d79930d4587b49fd0df5ecfa2e3f6fc24f5f26e39b', 'double', NULL, NULL, 'running', 1767226200000000, 2.2913998691365123e-05, 1, 'approved', NULL, NULL, '{"flow_version":"1","args":"GkgW2X+Zv0x6xuoAXTxukL7U"}', '\x020071f7cb9908');
INSERT INTO holdfast.entries VALUES ('approved', 2, 'question', '\x30983908ae5c5f1d993a', 1, 2, '\x0cee3ca812f64640c9ae76a6df7187339750b01532756008cb52cb34841aebe6', 'ask', NULL, NULL, 'paused', 1767226200000000, NULL, 52, 'approved', NULL, NULL, '{"flow_version":"1","questions":1}', '\x02004d22fb6f83a670726f6d7074a6476f206f6e3fa6736368656d6181a4656e756d92a3796573a26e6fa763686f6963657392a3796573a26e6f');
INSERT INTO holdfast.entries VALUES ('process0', 1, 'tombstone', '\x40044482419b325c804a', NULL, 1, '\x2580a69ea4d17f8034f4c98277b82b1aaa9c45aacef6520b21fa0c0f108936f1', NULL, NULL, NULL, 'deleted', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"nonce":"34ffa0cf1ceb15241b19","state":"released","process":["golden","golden",1,""],"dead_after":30.0,"lag":0.0,"after":"08df8f908022c61f7845c66e97bef425c2e9a0267c5502e2221cd0cb8bbdf2c3"}', '\x0200b8f4c353');
INSERT INTO holdfast.run_heads VALUES ('values', 1767225600000000, 1767225600000000, 'open', 'golden', 'thread', 'ann', NULL, NULL, NULL, 0, '[]', 0);
INSERT INTO holdfast.run_heads VALUES ('run', 1767225660000000, 1767226200000000, 'failed', NULL, NULL, NULL, NULL, NULL, NULL, 0, '[]', 12);
INSERT INTO holdfast.run_heads VALUES ('fork', 1767226200000000, 1767226200000000, 'open', NULL, NULL, NULL, NULL, NULL, NULL, 0, '[]', 0);
INSERT INTO holdfast.run_heads VALUES ('paused', 1767226200000000, 1767226200000000, 'paused', NULL, NULL, NULL, NULL, NULL, NULL, 0, '[]', 0);
INSERT INTO holdfast.run_heads VALUES ('doubling', 1767226200000000, 1767226200000000, 'completed', 'doubling', NULL, NULL, NULL, NULL, NULL, 0, '[]', 3);
INSERT INTO holdfast.run_heads VALUES ('counting', 1767226200000000, 1767226200000000, 'completed', 'counting', NULL, NULL, NULL, NULL, NULL, 0, '[]', 4);
INSERT INTO holdfast.run_heads VALUES ('approved', 1767226200000000, 1767226200000000, 'paused', 'approved', NULL, NULL, NULL, NULL, NULL, 1, '["team=gold"]', 2);
INSERT INTO holdfast.run_labels VALUES ('team=gold', 1767226200000000, 'approved');
INSERT INTO holdfast.run_tally_new VALUES (490896, 'golden', 'started', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'golden', 'open', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'golden', 'saves', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, '', 'open', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'saves', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'started', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'saves', 0, 11, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'failed', 20, 1, 540000000);
INSERT INTO holdfast.run_tally_new VALUES (-1, '', 'failed', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, '', 'open', 0, -1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'saves', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, '', 'open', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'saves', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'started', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, '', 'open', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'saves', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'started', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, '', 'open', 0, -1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'paused', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, '', 'paused', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'saves', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, '', 'started', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'doubling', 'saves', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'doubling', 'running', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'doubling', 'started', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'doubling', 'completed', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'doubling', 'saves', 0, 3, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'doubling', 'running', 0, -1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'doubling', 'completed', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'counting', 'saves', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'counting', 'running', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'counting', 'started', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'counting', 'completed', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'counting', 'saves', 0, 4, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'counting', 'completed', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'counting', 'running', 0, -1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'approved', 'saves', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'approved', 'running', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'approved', 'started', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'approved', 'saves', 0, 2, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'approved', 'running', 0, -1, 0);
INSERT INTO holdfast.run_tally_new VALUES (490896, 'approved', 'paused', 0, 1, 0);
INSERT INTO holdfast.run_tally_new VALUES (-1, 'approved', 'paused', 0, 1, 0);
ALTER TABLE ONLY holdfast.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (run, seq);
ALTER TABLE ONLY holdfast.run_heads
    ADD CONSTRAINT run_heads_pkey PRIMARY KEY (run);
ALTER TABLE ONLY holdfast.run_labels
    ADD CONSTRAINT run_labels_pkey PRIMARY KEY (label, opened, run);
ALTER TABLE ONLY holdfast.run_tally_sums
    ADD CONSTRAINT run_tally_sums_pkey PRIMARY KEY (hour, flow, what, bucket);
ALTER TABLE ONLY holdfast.watchers
    ADD CONSTRAINT watchers_pkey PRIMARY KEY (pid);
CREATE INDEX run_heads_due_run_idx ON holdfast.run_heads USING btree (due, run) WHERE (due IS NOT NULL);
CREATE INDEX run_heads_due_run_idx1 ON holdfast.run_heads USING btree (due, run) WHERE ((due IS NOT NULL) AND (parent IS NOT NULL));
CREATE INDEX run_heads_flow_due_run_idx ON holdfast.run_heads USING btree (flow, due, run) WHERE ((due IS NOT NULL) AND (parent IS NULL));
CREATE INDEX run_heads_flow_opened_run_idx ON holdfast.run_heads USING btree (flow, opened, run) WHERE (flow IS NOT NULL);
CREATE INDEX run_heads_flow_status_opened_run_idx ON holdfast.run_heads USING btree (flow, status, opened, run) WHERE (flow IS NOT NULL);
CREATE INDEX run_heads_holder_opened_run_idx ON holdfast.run_heads USING btree (holder, opened, run) WHERE (holder IS NOT NULL);
CREATE INDEX run_heads_opened_run_idx ON holdfast.run_heads USING btree (opened, run);
CREATE INDEX run_heads_opened_run_idx1 ON holdfast.run_heads USING btree (opened, run) WHERE (questions > 0);
CREATE INDEX run_heads_opened_run_idx2 ON holdfast.run_heads USING btree (opened, run) WHERE (parent IS NULL);
CREATE INDEX run_heads_owner_opened_run_idx ON holdfast.run_heads USING btree (owner, opened, run) WHERE (owner IS NOT NULL);
CREATE INDEX run_heads_owner_status_opened_run_idx ON holdfast.run_heads USING btree (owner, status, opened, run) WHERE (owner IS NOT NULL);
CREATE INDEX run_heads_status_opened_run_idx ON holdfast.run_heads USING btree (status, opened, run);
CREATE INDEX run_heads_thread_opened_run_idx ON holdfast.run_heads USING btree (thread, opened, run) WHERE (thread IS NOT NULL);
