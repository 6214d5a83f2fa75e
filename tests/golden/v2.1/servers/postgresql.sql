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
INSERT INTO holdfast.entries VALUES ('run', 2, 'checkpoint', '\xbbfad5e86fe4cbd2053e', 1, 0, '\x8aa4a0db4224a00e442b1e872c26529703d5f52819e39989f00f7475a17488c9', 's1', NULL, NULL, 'open', 1767225720000000, NULL, 9808, NULL, NULL, NULL, '', '\x0241bc55302ea7e58af61023d8f294b1c230b54020d18e821f63ca4774fc7be49c0caac245920101ba01a64b63e6e0605c9c939f7e872969b637c32a46880233509d054ab530979b81ea2c60f10bef799981ea2c6350370a6aa619a8ce32363386f7decc407516309ae0fd3b33509d05ec32c25d6e06aab3807d7e781fd10c546701fbfcf05ea419a8ce029661f07ea619a8ce02f6f9813d5100');
INSERT INTO holdfast.entries VALUES ('run', 3, 'checkpoint', '\xd40aa3245863bec9d2d9', 2, 0, '\x32cd0b22b4aa5b7ef83c322f4db270821bde70e1206076b5383a3c1ee1a4a969', 's2', NULL, NULL, 'open', 1767225780000000, NULL, 9978, NULL, NULL, NULL, '', '\x0241d83636179df5aa694b8b62dab9a05cb774fffbb340e072e776929092ccfed87a461cbc350102ba01d04c63e6e0605a9c939f7e8729e7a80fc32a46a802509d056c26c1c3d80c546701bbf8f0deac19a8ce0276f1e1fd5d33509d054c2ef01eb119a8ce026605789fd90c5467017bf4f0d46006aab3803d7a78bfdb0c5467017bf4f09eb919a8ce023658e07d7733509d05ecc003fb9e00');
INSERT INTO holdfast.entries VALUES ('run', 4, 'checkpoint', '\xc6a135739b66366b443f', 3, 0, '\xfeaffd73340912fbe73d787de5b03833b9fc0928584a5e623eac18fc83aed604', 's3', NULL, NULL, 'open', 1767225840000000, NULL, 10148, NULL, NULL, NULL, '', '\x0241b61eee016015ff86cacb894e9b1d93701490bfce4337646d5ed484781877aa0e3586bda00103ba01fa4d63e6e0605e9c939f7e87a9ecbd2fc32a46a802509d05ecc0c3d3ad19a8ce0276e0e1230466a03a0bd881b780a57d33509d05ecbb19c2728719a8ce02f6d78d61f9c70c546701fbebf01c6606aab380ed240b840a90cb2d8d91cc00b9dc12d86981db0272b925c81d00');
INSERT INTO holdfast.entries VALUES ('run', 5, 'checkpoint', '\x9b046dd10ab5cd4cc3b8', 4, 0, '\xdc34968ecf27d004ccfd8e6398706a627a692b2cfc5ac706c0d88ef39b2589f2', 's4', NULL, NULL, 'open', 1767225900000000, NULL, 10318, NULL, NULL, NULL, '', '\x0241a572798482360fe3231ed1d531d0370613f0c0f8bb65246219d36707d4ef8a7df172f7c80104ba01a44f63e6e060599c939f7e87a961a63fc32a46a802509d054cf8f0b2c00c546701b30fc26fa03a0bd81b3781fb1e5467017d8a081f509d052cb12de12108aab3804d2d441883ea2c60723281c702a8ce3231408a27509d6502eaacc06db10409004b1c4300');
INSERT INTO holdfast.entries VALUES ('run', 8, 'checkpoint', '\xe3affba8302f40e3d612', 7, 0, '\x2f94b03b14dece3c47a8a82d92487bcf278ae84d3bfc61e21e2ec53658395713', 's7', NULL, NULL, 'open', 1767226080000000, NULL, 10828, NULL, NULL, NULL, '', '\x0241a8b3180fa8b5f0a01522bc2d4e2c92c9a8acb62fbc1f8a69ef9f8d1cd7540a52a45b86e70107ba01a25363e6e0605f9c939f7e8769def46086558c5005a03a0bd80b468431a8ce02f599e0b100aab380e9c9081e4fa03acb0494a460b682ea2c13500b06e62e509d658254be9a81ea2c601fd7149e5e407516b075022fa3cd407516b04b6b044f73a03a0bd8a50596f300');
INSERT INTO holdfast.entries VALUES ('run', 9, 'checkpoint', '\x86cf73937345ab0cf187', 8, 0, '\xd1c175a198196a806b93f91270cc6b99b5ca37b0f5322bc83a5fa55c43d3d82f', 's8', NULL, NULL, 'open', 1767226140000000, NULL, 10998, NULL, NULL, NULL, '', '\x02416be2c16d8c382b9723a55874da241e6bf9ec0ab5e78c3103e8af5439e3f235270d16b4600108ba01cc5463e6e0e0589c939f7e8769c5c11086558c5005a03a0b680222dd82ea2c50f31d9eb2417516b0076b0a4ffba03a0bd88385d73766a03a0b585618c1f30fa8ce02765811390c5467818a7d840a90cb4d11f59e19a8ce02f64fcd10b6805c0e2caa4c0c01');
INSERT INTO holdfast.entries VALUES ('run', 10, 'checkpoint', '\xec9ee0a9e44e08d76b42', 9, 0, '\x472bade87a433b4cfbfbf27aa38e19a247f589436c12e85216826ba25f8e33d1', 's9', NULL, NULL, 'open', 1767226200000000, NULL, 11168, NULL, NULL, NULL, '', '\x02410ee22b1e08206e4998ed1f283c0a300613bab7f85693ba956c85867488217e02aeedcace0109ba01f65563e6e0e05c9c939f7e8769d3eb5086558c5005a03acb04547ac25c0eaab380dd5178fd6b06aab380bd4f43b8ef417516b0f709afc3cd407516b0ff67010f41509d05aa6ee02e07d559c0368f293c16407516b0b3096f4b9881ea2c60ca3786c724a8ce02f62d81052a00');
INSERT INTO holdfast.entries VALUES ('run', 11, 'rollback', '\x106410eda4d643c1d61a', 4, 11, '\x776ba84e7c053d19c0e1518ac996f7f474a0fbfe830b1ef68e5ed5f204dc44ea', 's3', NULL, NULL, 'open', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"target":"feaffd73340912fbe73d787de5b03833b9fc0928584a5e623eac18fc83aed604"}', '\x020075f89ee0');
INSERT INTO holdfast.entries VALUES ('run', 12, 'checkpoint', '\xc6019de7c6ee111bd569', 4, 12, '\x24678a589cfcdadfc101f1c3341ebc60000f3411dd26d98dd818625241a560b1', 'after', NULL, NULL, 'failed', 1767226200000000, NULL, 13038, NULL, NULL, NULL, '', '\x02416c5856c488b18b2c9a2e0f5bd2a681460dd11792334b3c735b066c3c9238852cf14576ba080bda16a44f63e6e010599c939f7e875961a63fc32931a802509d054cf8f0b2c00c546701b30fc26fa03a0bd81b3781fb1e5467017d8a081f509d052cb12de12108aab3804d2d441883ea2c60723281c702a8ce3231408a27509d6502eaacc06db104095820e21a546701d339bc7c3503d559a046203cbd80ea2c60d7da109ea240759609a85300b305546701bbd6e6f05409aab3803d6944ba05d559c09eb4313c6583ea2c604f1a91f6417516b0cd6309cf1da03a0bd87146e41f509d052c5fe0759619a8ce02769c11791054679980da853033407516b09f0ccfc766a03a0bd84f3687bb03546701bbc5089782ea2c600bd718ee17509d05ec16c3cb1333509d05ec165bc2c3035467017bc1f032c90c5467017bc1883005d559a03e133cd4417516303d19c1e305546799809214cc16509d65026ac1c0dc01aab34c90ca5733509d05ece39ac2d307a8ce02b64ee065b419a8ce0276698de0690c546701bbb4f072de0c5467017520d229a8ce0235dfe1390c5467017bb0a6f0b40faab3803d58787d6306aab3806585113cff80ea2c60871591c3407516a8d847a800b9d41451ef9981ea2c60ffd40c610bc8a5c0a20aee0e509d65022a3d612e05d559c0ee28bcfe3503d559c0dea721dcb7a03a0bd8fb84d7e166a03a0bd8ffb3808718a8ce025537709782ea2c609bc7141eeaa03a0bd8d984b725cc40751630a51bc3630e54679980868360ee00d559c00a1c51be82ea2c605712dea63103d559c0aea4053c0581ea2c600f08de2e3203d559a07a009e0a41759609a8890b7329a8ce02361b4de029195467013b8af0f69919a8ce02f60b8de0b9015467015307bc8d670eaab340ed15984bcd417516b01b086f279a83ea2c506d0b33c31c5467017b7df0b6a639a8ce02f6facc60ee3007d5592648ed5573509d05ece499c0fc620eaab3809d3c789bd71c546701fb7446b0f03007d559c044086f379b83ea2c60250f0f5373509d05ecc2c1dbdee6a03a0bd885b384c58b39a8ce02f6d8e0ed7773509d05ecb199c3e2d61c5467013b68f0d83707d559c0f463064b1fe6a03a0bd81f83f723cc417596296850166e0bc8a5a0b626cc1da03acb1434c6067329a8ce0276bfe0fd1973509d0574b7112cad9b83ea2c606f0bde273207d559a0e61a2cbf9883ea2c53a4910a73509d05ec4b192054805c0aece120cc00b9d40814ca3001904b8d11fd3b73501d05ec3ac1f3be39a88e02f694e07d4473501d05ec2959c07d0baaa3801d23783fd31c5447013b46e6f01003d551a0a615dca5a03a0ad80f3283873aa88e320515a87033402e051653f09803d551c05e0ebccf6c0eaaa380bd1c78796a0eaaa3809d1a78bfdb1c5447013b35a6f01404aaa380d104efbb9b83ea28601fc6149e0a4175942952ffdf1c5447014b2d53784a06d551c01e0a7c0cc11c5447017b28a6f0dc00aaa34c41391de60e501d058a26b84b417514a8218950017229b0da819b01aaa380dd0d842da03a0ad8dd40b8035447017b17089782ea2860ef02e117501d05ec4c207c0baaa380ed6a447880ea2850fb151e62a03a0ad877408429a88e02761510a10eaaa3c0831d3033407514303120620e544799827218cc1da03a0ad81140c43ea88e02760410e9035447019bcd881404aaa380ed7e441a03d551a6a03e23cc1da03a0ad8cc47a453501d650aea87c355805c0aec33c3d33aa88e0236e211b901544799021b17f0fc02aaa3807e47e428501d056cb020f21ca88e0236d111b9125447015be4887c0baaa3802d7244ce06d551c02046e47d501d056ce2204a07501d056c6f23ca0f501d056c5e234a18501d056c5e23ca20501d6586349e6a0eaaa380ad69443906aaa3cc4063e37033402e0516d1f09803d5512013e0710baaa3cc40637d309782ea28d080123c7d80ea28604b18512683ea28604b18516a83ea2860431751ae83ea2860bb16914e417514b05d8ba81b407514b0198ba83d407514b09243d42fa03a0ad86a05d64000');
INSERT INTO holdfast.entries VALUES ('run', 13, 'trim', '\xe900b4c0cc3f8ef9153f', 12, 12, '\x157ac9bd4fb2ea34f6356c048fc3cc5de279be4d5c9df57102a4cb598df2f996', 'after', NULL, NULL, 'failed', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"dropped":"6","behind":{"6":"dc34968ecf27d004ccfd8e6398706a627a692b2cfc5ac706c0d88ef39b2589f2"},"rewritten":{"7":"5c9a879801490b6bbea2119cbe07724749b35401fd003f9db97827817f9f532a"}}', '\x0200b761f510');
INSERT INTO holdfast.entries VALUES ('run', 7, 'checkpoint', '\xb512ced2f5182452cabe', 6, 0, '\x9218dc02be5ef4e471866de5153dabef10d809b3a36c2ce46651810a2275b795', 's6', NULL, NULL, 'open', 1767226020000000, NULL, 10658, NULL, NULL, NULL, '', '\x02068de697e822790c304ffe7cb98aa3ffb359b03ca901840fff0575fe133c8426fc26f7b0a10d28b52ffd60a2285d69004adafc191fa027950eff7f8279bb96c5a18bfa4de26ba9aa6152ca9d52928907fe739e39a701920196011357f4501317e8541367b2307125a2d2274cdc90d127ce5af489ab4f5c78284fdccd7be2fc409eb81ac71347ac62df891b0ae7d389b3d268e2aac6a589fb9026ce63b5074e1cb5e6c491349caa9938eb3f1357d6cec4851367e26eca4c9c3f3579a52322a3c048599c99dce2caa416176c687137b1381b55c5d5fa8a237b2b8e56acb8b1a938315a88b36a08715577880b6514e25e0c712e4b886b553d8e8ae171acfb71537d9c54f9380b258fab40735c082138eee18e7308755c03c971146a1cc75071dc046b9c8487c6d9f9c6d5ab8d0b3735ee67e37c93c6f5378aa3b7288e67a0b8f9294e5ea538f389e2cac1341477539c6d8cab4d8a71e44a601c3d72c68d45cc38b194715621c695091917fa19c6bda630cea5b6268eda878963a73e7153914f9c74e889b3b2d3c4851b27ee2627cef74c5cad64e2a89489232530b7b8218b136ac5192bc41519e202c3e3cec799c171251d47acc6916ddcb071c239c559497165c5b87033ee26e37c9bb8da278eda89e370e24664e26410988ab33eaeac71e1147733ce9fb81e6071d4384edc489c040203000a0c18c0c00209022828e08001010204b48538d6ad42dc945408711602c3435c08611ee21e1c8238c435d00d7114ca28c431b414e226483831c4d95913e2eac50971e10e12e27e4a88f3edf6b8fe638fa3f7f5389e538f9bcb4bc2e3ccf71f57aefc71c1643feef6e3ec711f5793c5f4385a841e37164be9795c95328f0ba5e5712fe5712e6d8e6b29e6382a5d8e6329e5b829a59ce03823fe8e2be2dc7181783bee443bce4422eb382216398e4422c70d5188a5e38cb4715c911ec70552c671271d677284c6608d2392c6aa166d4887c6d5b024342e0cfd37ee430f6fc18debd04e6e1c0d5b6be338f45086a7c69990d4b812161b178465e32e147e1a5721a771242c691c8595c68d506846a3b8b22a8a0b762b8ab33d505c8dec758aa3554f7163164c7156648aabb2525c2897e25ea5385711c5b54a1447354471ac408a9b9212529c850fc55508c184e21e4203cd1847a16c8c63288d711324dcc5383b598cab5705c685db81713f03e37cab33aebfcf387a79c6f134336efea21967be9571e5be8c0b262ae36e3b506988261967b5615c752808e35a611c758471acdd8c2a167114025943a1d95c6a26cc871eea94c69c99cb04932ab12041e62634995a92ca478248cbacb5b2b6ac9d602d6f2dd9dad6da93b58146ad31aa8951458c6a45a52a6a4351ffa20617d55a5469b143c5128bed145b6c0816585a05b6a4025b86c0f681bd1da60c0dd32a0a530b856928cd54a6c1a63553530c97bebfb4f7a554bdb4970ee952292f95cfa55272a9c8a542336959f0c405ab9bd1563b6d4c6caab578e2aaacccaa58753774e25a54e6721555b11317e8e1d2897308658163a1a8421f8284f99c26ce5effbdd1e9ed03bd3234713c4968e2e6b757953fe53638dcb7c9262fd948c4148f94c99449851317fa09f69a622e51b5d6076a6f67a7f8a9c82da5b52cbb69262e5871c8f14cc950e636b2a2b2580e467be0037f9ab719ac462ab14e15122985f360e58c4c5c5955840eee328bfb90599c87cae23a64b7607134142c8e432343b63813aac5951085c8e22e441667a14f6971151a8b23a1b1380ac9c5e24648486a15672655155726ac8a0b360f15770b1567bb5d9a2aceaac68aab3ab1e24259988a7b712acee54bc5b54aa4e2a802532c35ce7c9f1a177cf1fdc0c6d567e3c8371b47131b3716b371d6db34ae5ad3b8d08769dcebbea59e9dc64d5fa307695c91342ed04f97c6993e248d233a6b46ff94d1858ca71a3f647c8df14671e6ad28ae3cf1e75d1437149e8ae26c3e45713597b96b81e23e0f73b387f983c3bc6e989328cc652e81e24c7e3bc5953cc883fc146779e5748a2339e52397971decdbb66dda638b6d75fdda754d9eda5c0e64b289e24c4a2679c80736ba4871141c48710c7e08a69bf7dcbf87e27cd7505cef8f3dee78ccf18c656c62df96b2501cd9122a14475b4e4271638b2d1da138ab854428ae6aa1593d53565b4d66ab5bb5fa81acaed36aab6931726b453e55918da1c845f6b8c8252d32858a7c9b2217b96581ae50816608810e7fa0e9e0069aa6405719e876021de8937d4caa8f8be163f31f7bdc318dc733322566f1a52cae048b496eb1c523b558842c16a1c52263b158cca44c82c9cd769296713521bbb08ca3954c193726361c23c6594d55289b13e35e26c6b9d82215b1684aaad672083e19f7101e5e32aec118880c83fba812b9848b1a86bdd576120c120661388c42cd0f12c0013aa82cfbff3481d7af35447e97d03b5f8ac924665d2befa861bb07cf501aee96d8f2d39ba57b3af3b03acdfc6ef36c52bfaafa366f8d4cbf32bf9d512433bc6f11e132a570841b9bf236e6277f2b54f21c57a240d96c9d1021392e4a7c443f07146492a6e0c43ad230bdf98fb2b03d63b11d609215cbe0b4eaf01ed4cc828cea45b90161a78f4615c0b715bd743c8aa25fc6eb851bff785bb759921e1ba2038827e151d67725086717f579064d689663f48afdbbb0a4914bcd3a818945bebc0a3db6bcc7e68075655b9dbf9a9253f9be2a9a52b0433f1f5498436fe50c6ce8c230cd3434b550d219faf68fa218faec62ea421776e867a11919a42bf423f79352e867f5722774313bbf84261e397611fafd367541e8ed96e2075daecce5a0391286a541ff9c4b49063d162b7641f78cca5d41d3192802924210b4bd479107ead910873a0d54a64099af634ca074b56138192971f987a5b2567d82658796a47da56721386d15a5e9283f2228758c0e9604f6526c0c021d865df857fe83b7fd0d3a10a6fe8eed0f79feb5b3ff26ffeadbbfe15fb0f25fefaf9cfbb7fd8588fa45ec2ff2f20916cbf511ca2cd2e04362f89f52e318f69721084680c2a5f14d381555f0149f8ab7e67f612a54c1537c2ade9aff85ff2b82a7f854bc357fc95c3ae8f4244cd0ce313a9eac42d046bb80f850b8a505d8946c297db351ad62eff7d474dd64d1d46ae4bd489a4e61a2d3274ff2af78169fcf2c19573c8b8ff2bd56e48e7f674ed331b98806fc7abc53bb2fc8cdb8ed4bf355affaaa61f3cc78b8269cc3f7544cd06256402fc9f1d62f7d75c1c65730d7a8b46a8b897a52f9c655916afc137253e9b56afcecc3c5745171cf94a2a8de1c7f1a1bdb43d5de4e79375131deadbca6b966bb5d93ccaa2aae9921d17b6bba9cd9a349e91469cd9a3146acb1a657808dab49c86f2eab29b8f7b06a34bec94d3545e61d4d8d46aea8a5a6c6359f51a3fb0437d414329ef534227e369de6e1ade5a6615904b18fe073c871a13ec94bc94f1a0d9cea86342c66428ec63211d746538e6299ab6af59241b83f8c9a4bb83f8c9a4bb83f8a622f1984fbc3a8b984fbc3a8b984fb1faa26b8e34d5cf455bef53c29bcf98fbecbf7e6a94a4a66eb778f3cfc3d843d1ee1b356b86580b1279384e8f2bd7b8ea2a7580e19e1cd7f1474adc586d662bd7b344b958913af2211132a134d61a2d3333b2f9156a4ec10131ef1048d6e05325c02fe26c8d666776f2e6cb0e66a959bf2894629b88d0b0961524fec20a4f2bfa182306f011e084931fd84cc653ebe7dc9390129f51d1c4ed22169216f153f544de60c88f5318bd8aaff678419f5bf08e033fdafdf45e19bb49704ea2b2734b2ff5c95cb5bb13ccbabf3e4d69bb74080f2294fb183d6e4b873c95cf2ba30af3b9925fd2cf00e20164f302aca020264e9da393a2e04f2cc56fa1fd1212a7249b0e45c5a53952ce71a9d94243e017892898cc792649870a0c0f9a96af192b945b81862e14ab967d9561ebcc8c50d25fbb84bf426baa1ce21d341fa4feaf8290378a5eec31f1fdd381f381e25a4831863d333b4b6e39d47cb30703c238847316a83419dfd2ab402e3f074eee3a08a06eb85470a8f856c473743e9a263a247ba96a32f319006381ec225110bfeb1ebae512ccc87657436830798a7cacd4ad535a016c2c7771a4a2c29826532a4a5450a9e494d7d53701e955508eb4aa3ea5d8306faf494f4ba9e56cbf13f1f90133263454a9030e86c2cc78f378a1061c652aa917b03b9e4fb35ddb075de9b1a95607b92a338ec0d1d936112daec8c837ae8123d660c9c842e19bbdbd941d9ca583102983ffdc0885a085f3ba64e701d5001a53806f2d548d463321a3267bf169567202da93fda112a071cbdcde602f3da5b7f0278163d3bf2a5ca800c7cd4583d1dc3946f586485283376b054ae861401657da34bfda37a1f010e70a1a7f7f8cb3c1d0fbfc8d36ee846f1b41d2d05cff3077e1d978161a3b52318c549d835c4832a5bd7fb989a1d62a211600392702ec04830732d0e9310e65616bf10cbb50eb53a72c78056a0e81897c184473e426049e73ff8ca7a8d9a2515cd8105443be0112e2a12e98ec3771ae26dc1686f80810ce6b3e791be7d351e95d2cb377c3e416867a67b0498a9de916206734770461ee696cf94da3457bb89e4f56684b30084df4373912afa602aaa449d1b04959053b3900ad2682a504619198515a833bc70048cc76ef644011386531fe3874d37ffa5d25a3930618892bb38b78828f627ab3e4212fa9bcf03a99f731b4f736a83c2761942753884d26128457f08434db2810dd936b0199bb78191c4b210602b');
INSERT INTO holdfast.entries VALUES ('run', 6, 'checkpoint', '\x655b079dbdd2d3154c70', 5, 0, '\x5a063468832a60b823ead2d71125ac678dd6033d2f9fed408767176d4f561e00', NULL, NULL, NULL, 'deleted', 1767225960000000, NULL, 0, NULL, NULL, NULL, '', '\x');
INSERT INTO holdfast.entries VALUES ('fork', 0, 'open', '\xd38964763390c961ef6e', NULL, 0, '\x35c7eec86fc65a3ab79883af9d4c4b3dd61a4d00a11d72d59eca028d19af32f3', NULL, NULL, NULL, 'open', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"birth":"fd73c0f5f6c5609d7d57","origin":"run@2"}', '\x0200c4d1c9f2');
INSERT INTO holdfast.entries VALUES ('fork', 1, 'checkpoint', '\x6856bfdaa91ee42ed126', NULL, 0, '\x4b7c940dd5d31a01fbc87bfff0207ad69f8e9cae759a7f2d071deb2e27374101', 's1', NULL, NULL, 'open', 1767226200000000, NULL, 9808, NULL, NULL, NULL, '{"origin":"run@2"}', '\x0202e8a47e2528b52ffd6050257d60002aca2c181fa027950eff7f8279bb960570a8df24de7f03003329e54e29c9c403ff116a39880172017d011377f39e383f9027aec6f1c411abd877e286c2f974e2ac349ab8aa7169e23ea489f358ed811347ad3971240da76a26cefacfc495b53371e1c499b89b3213e74f4d5ee988c8283052166726b7b832a9c5051b5adc4d2cce465571b5bee2c8de8aa3152b6e6c2a4e8c16e2ac1a425cd51de2421985b817439ccb12e25a558fa362781ceb7edc541f27553ece42c9e32ad01c1742088e7bb8e31c421dd740721c851ac731541c37c11a27e1a17176be71f56ae3c24d8dfbd938dfa471fd8de2e82d8ae319286e7e8a935729ce7ca2b872300dc5dd14671be36a93621cb91218478f9c716311334e2c659c5588716542c6857e8671af298c73a9ad89a3f661e2d8a94fdc54e413271d7ae2acec3471e1c689bbc989f33d13572b99382a65e24809cc2d6ec8e2845a71c60a714586b8c0f0b8f37166705c49c711ab71641b376c9c704e7156525c59312edc8cbbc938df26aef689a376e2389cb81199381904a6e2ac8f2b6b5c38c5dd8cf327ae07581c358e1337122791c020800203101c580000010a0a306040c0000171f4be1ec773ea71737949789cf9fee3ca953f2e98ecc7dd7e9c3deee36ab2981e478bd0e3c662293d8fab52e671a1b43ceea53ccea5cd712dc51c47a5cb712ca51c37a594131c67c4df71459c3b2e106fc79d68c79948641d47c422c79148e4b8210ab1749c91368e2bd2e3b840ca38eea4e34c8ed018ac7144d258d5a20de9d0b81a9684c685a1ffc67de8e12db8711ddac98da3616b6d1c871ecaf0d43813921a57c262e382b06cdc85c24fe32ae4348e84258da3b0d2b8110acd681457564571c16e4571b6078aab91bd4e71b4ea296ecc8229ce8a4c7155568a0be552dcab14e72aa2b85689e2a886288e1548715352428ab3f0a1b80a219850dc4368a019e328948d710ca5316e8284bb1867278b71f5aac0b8703b30ee67609c6f75c6f5f719472fcf389e66c6cd5f34e3ccb732aedc9771c14465dc6d072a0dd124e3ac368cab0e05615c2b8ca38e308eb59b51c526aee8a1262ed0a926ce6461e24a44a54f98b821a34f9cb5e813579fb8f0500e56812da9c09621b07d606f872943c3b48ac2d442611a4a339569b069cdd414c3a5ef2fed7d29552feda543ba54ca4be573a9945c2a72a9d04c5a163c71c1ea66b4d54e1b139b6a2d9eb82a2bb32a56dd0d9db81695b95c4555ecc4057ab874e21c4259e05828aad08720613ea789b3d77f6f747afb40af0c4d1c4f129ab8f9ed55e54fb90d0ef76db2c94b361231c52365326552e1c4857e82bda6984b54adf581dadbd9297e2a724b692dcb6e9a890b561c723c533294b98daca82c9683d11ef8c09fe66d06ab914aac5385444ae13c58392313575615a183bbcce23e6416e7a1b2b80ed92d581c0d058be3d0c8902dce846a71254421b2b80b91c559e8535a5c85c6e248682c8e4272b1b81112925ac5994955c59509abe282cd43c5dd42c5d96e97a68ab3aab1e2aa4eacb85016a6e25e9c8a73f95271ad12a9382ada421ceb56216e4a2a84380b81e1212e84300f710f0e411ce21ae886380a6514e2185a0a7113249c18e2ecac0971f5e284b8700709713f25c4f9767b5cffb107532581e24c7e3bc5953cc883fc146779e5748a2339e52397971decdbb66dda638b6d75fdda754d9eda5c0e64b289e24c4a2679c80736ba4871141c48710c7e08a69bf7dcbf87e27cd7505cef8f3dee78ccf18c656c62df96b2501cd9122a14475b4e4271638b2d1da138ab854428ae6aa1593d53565b4d66ab5bb5fa81acaed36aab6931726b453e55918da1c845f6b8c8252d32858a7c9b2217b96581ae50816608810e7fa0e9e0069aa6405719e876021de8937d4caa8f8be163f31f7bdc318dc733322566f1a52cae048b496eb1c523b558842c16a1c52263b158cca44c82c9cd769296713521bbb08ca3954c193726361c23c6594d55289b13e35e26c6b9d82215b1684aaad672083e19f7101e5e32aec118888ca310c81a0acde65233613ef450a734e6cc5c2698548905093237a1c9d492543e12445a66ad95b565ed046b796bc9d6b6d69eac0d346a8d514d8c2a62542b2a55511b8afa1735b8a8d6a24a8b1d2a96586ca7d86243b0c03283aca812c1808b1a66e1d576520c098318a7a4d4fc12c0013a2a0dfb13ce393eaad80c2e4c78e4d2ba13165b78445ebf629bfab17460b56dabee57b777aac75721a574b3431b077d7268eae5646ea87d98281a9a7128e9196af08f400ccdee22cf851aef1065a17919645fa19ef743a2d0f4d5e34da86b76f8129a30720c45a8f5db3083d0b4b7ca0fba7c654e07454f980a1b9473ae43326840b1541694f6a8fe0a1ae18192d6e90041d77bd4f6404f1bea5e4f039d1628fd3ab4046a4f6da426537d5c2461c9ab55b8c1b2654bce5f99ba1082b58a7ee9282b22e83d463f4b7e7b29b40fe210869ef07ffc8368fbcb75804ffdbddd3fe3fc2766ff237feadb5dc31f54e56cef0f9b7bdaf65f20eae8b17ff8cb0f58e41ce14e127883afddb4c3e3754ded8fa6008420295c078974aa7ad2045dd2982e3a692af4a4117c4be13a24d2fff48411744961ba88ac361db0254abb5c2514082e56e52c06a9cb66511926029c245beddf1e54e3b0d7fdd4f8da74c7d4f8e59990b498cc44239c20094de752b0be630126a1690e65688bf38e4966fad1f1ae8876fcda7fe77b5f5b9a19ed6bcbab2cf51509fa19ef700d80dde0a98ea0a53081dedde3d52afa0a49115fa55a03a855274d18928a331e8854013c593745afe53d3f7bbb10292a2d4d71280a0d0f80c61298aecad053fe566a8977465eb35e33dbaed9679531d7ac90c8786bd69cb1a3492b14f1cd9a2d461863cd5602585dcd06df23560333bd615563b34da05473803c97a9e1f795a3d470bbc62e6af86dc2146a38c4739e26609e6c4e4367cb43d39c2e24d8c7cd27fc00571f34a6d4278d03a7c622cd4c665e1d4dcd113146b3179aa8141d72a40363566a0b0f346ad4650f6111b5bd7fcb71247132099914333daa2112bcaa69569fc324180426e1f796563b2e85260b9d4a77c91cf9b69207ef4330e3e14bdc3a5cc627e5673a6d081a03c6e8a24e0150101000845d57b527b428f7ee77b30099706155d031e13f5110263c3f93f9121e8a643a8457230220695aae0ed719beed65cb1a0d36794042d2b52c3665c2520a8ce28184109227ed2010f1bf4f41d8fec253201c7eba1e92157bac5aa5e2040840d3eb99e29a68b96f9538542fe40ca9f5bb8b08555fd00874eae319c069fac5bfc185af9ede81690938b1ff8bde05a76a29f7ecafcee45b9df20539ca2190831ce84dbed8949e926f28c6b5933ce950e0fbe91f4548aa6a96aa62a158204258d4cff3b52902440f16c8a5c192b1b4bcaaa49a6b065292e413de93fc32ee4992c483b79f4535b7052c0c1841e38405bb7229c0033d702177b12bb5c73d1a84dcd82487b483441dace36018005d311afed0e8af7ca07ce4723a1c34767a43831d1f7a5451031f1b2da5fe510736a8b2345a2b48740fc5c90f723fd8391ebd3816293b2e3c540c1d6f3b123139ae0e0325c0f128593d212018dc028e14604e95a3c31c1cc6bca546b9abee350868e4a2d38d50b2e0024ab9f3d90a6e84eb17a3137dc72a9c37c9a87cd74307b2f5f408ab14c402e1845e72861ebaee962b84cef817aa2ca358d971f4398d7419784f3eb75f0cbbf51efa289bed15396260cffd1896496672674ea58712d14363fa285acf18e0cea0e92ba39bd1acc1fb210b24d42731984a2c7550801f8718109191881b136f48a4fd832d350325534f8f7f851f2b608bcf7eebb552d243e479e8fc91a855ce6d208ac6cf594242df80c5f8f579f3c0376b0ee500da31673cd8511f1f810eaea0a7ef888579d40dc8c9a3682873f18c1835050f34073e6e5cccc3c268977414426397100cc2605d8e31686648e846043f208e7369a370ccd1733885b0d7a83245ac3632944423700c8003a5df98044c97af514c9668e1419845d87674896e0ec820ea488fda5071db22336cc8909adb5104075d64d0ecc818c5ec2be928865e8a0f61cc228f48f7ee3c62bdbbc688e1eef28d7acc031971b5b1d79e32b65cfd5f316224cdb3c98fa07936f849da67833f49f368f02768cf267f82f6d9e047d03e1a1732fdfcc0ae1e82049caf9d011474f3f392ca92829d2acf27702dbff56c98b51aa72838c6e71648ff14b05324f5130a0add5934e5783cddc970aa778075a8b7251bd8126433b65d84d7605922a315');
INSERT INTO holdfast.entries VALUES ('gone', 2, 'tombstone', '\x01342e58bec13e8e1225', NULL, 2, '\x111f96b36584c9b6b0200189d2a15b95e260f9feba426c02d1492138aad6cc2e', NULL, NULL, NULL, 'deleted', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"after":"f663cbc6b4e515939839b09e5fa12d27471df5d91a4a164ae4c06323a3cd8f8e"}', '\x0200d88b36c3');
INSERT INTO holdfast.entries VALUES ('paused', 0, 'open', '\xe4036ad91cccee3fe2a8', NULL, 0, '\xa6d10a1e7e59b105f38d1370821b5e3aae30c64fdb5c72c9079c36943d20b08e', NULL, NULL, NULL, 'paused', 1767226200000000, NULL, 0, NULL, NULL, NULL, '', '\x0200c3d10964');
INSERT INTO holdfast.entries VALUES ('paused', 1, 'checkpoint', '\x491e907cb6fda54e5b8a', NULL, 0, '\x5939d733ffa8b0f352eed8547117e2f18cbb920bebd4d8beb51bf7d812d57da5', NULL, NULL, NULL, 'paused', 1767226200000000, NULL, 17, NULL, NULL, NULL, '', '\x0200c7864ab581a87175657374696f6ea6676f206f6e3f');
INSERT INTO holdfast.entries VALUES ('store', 0, 'member', '\x6541e833549a28ad7db6', NULL, 0, '\x704511fcbb293381b7519f88777569744d724ee46447a30908103d509bd79ea8', NULL, NULL, NULL, 'open', 1767226200000000, NULL, 0, NULL, NULL, NULL, '{"birth":"ad53e34fecb0beee56e9"}', '\x0200fdcb373b');
INSERT INTO holdfast.entries VALUES ('doubling', 0, 'open', '\x5924f09e0b50b09a4bc9', NULL, 0, '\x2a6b46e78e35cf52c7f6ed7c87427bcba6157118532e364f84b0e172614e99fe', NULL, NULL, NULL, 'running', 1767226200000000, NULL, 4, 'doubling', NULL, NULL, '{"flow_version":"1","structure":{"parameters":["n"],"code":"4cb5bf63e29bf79b"},"inputs_hash":"f3e0792e105e2bfe88e7b3bab5097b93a59a8c5b239fe3c6f87a8d0f72ab9032","birth":"2e20ec4007c70ab951f8","holder":"0|34ffa0cf1ceb15241b19|golden|golden|1|"}', '\x02009d86b26281a16e04');
INSERT INTO holdfast.entries VALUES ('doubling', 1, 'result', '\x0f655cd00ff87c8ffbe0', NULL, 0, '\x42b580be38058166022ce09d72a9eeed67b2c175ffb82773d3f833d29a89c500', 'double', NULL, NULL, 'running', 1767226200000000, 3.774600008910056e-05, 1, 'doubling', NULL, NULL, '{"flow_version":"1","args":"GkgW2X+Zv0x6xuoAXTxukL7U"}', '\x0200238f883908');
INSERT INTO holdfast.entries VALUES ('doubling', 2, 'result', '\xc58e6f02fbe74f638e47', 1, 0, '\x8f606702090e789cd2bb0ca77da962ae085f85d5a4ab1b1d0befb8a6b4e39e4d', 'double#2', NULL, NULL, 'running', 1767226200000000, 2.7800999305327423e-05, 1, 'doubling', NULL, NULL, '{"flow_version":"1","step_name":"double","args":"DZ++MATnxXKBTD5kxMdc3quQ"}', '\x0200b19e760010');
INSERT INTO holdfast.entries VALUES ('doubling', 3, 'complete', '\x38138f86bae694aa37cc', 2, 3, '\x8504c9d19a141d7af7a6ee8d42c8d81b3f0f338c1c22c50cb537ccc8f5ed2e19', NULL, NULL, NULL, 'completed', 1767226200000000, NULL, 14, 'doubling', NULL, NULL, '{"flow_version":"1"}', '\x020011051e7682a46f6e636508a5747769636510');
INSERT INTO holdfast.entries VALUES ('counting', 0, 'open', '\x947a0f1e9cb9d33779b4', NULL, 0, '\x04038e174e45cf842184a9a559c7198583251f60a298b03d878be69a0ed97858', NULL, NULL, NULL, 'running', 1767226200000000, NULL, 10, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb","structure":{"entry":"add","nodes":["add"],"edges":{},"routes":{"add":["__end__","add"]}},"inputs_hash":"3fef49fcbf39827f7259c780545cb69ae9ae44b800a815336675fc83d65feddc","birth":"bbc4c6c043537825e971","holder":"0|34ffa0cf1ceb15241b19|golden|golden|1|"}', '\x0200421952a282a16e00a47365656e90');
INSERT INTO holdfast.entries VALUES ('counting', 1, 'checkpoint', '\x2c9db6ed0120f0605954', NULL, 0, '\x88c168b7562ccef0067e61b637caeb234100600d1af53ba5771d3471632c56c9', 'add', 0, NULL, 'running', 1767226200000000, 3.6403998819878325e-05, 11, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb","next_steps":["add"],"iteration":1,"visits":{"add":1}}', '\x02000a6a04e082a16e01a47365656e9100');
INSERT INTO holdfast.entries VALUES ('counting', 2, 'checkpoint', '\x1cb19e02d9deeb371b4a', 1, 0, '\x092ec0f460aa8fbb9d9717340738c7b8751644bd5b72b32503acb70ef02008c9', 'add', 1, NULL, 'running', 1767226200000000, 4.633900061890017e-05, 12, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb","next_steps":["add"],"iteration":2,"visits":{"add":2}}', '\x02002ffde52482a16e02a47365656e920001');
INSERT INTO holdfast.entries VALUES ('counting', 3, 'checkpoint', '\xf521766c9d29e96d102e', 2, 0, '\x414beefff75e8d26c5f9f9dbb7576735a6f8de1ed1b824cfdb6885bad9c6e31d', 'add', 2, NULL, 'running', 1767226200000000, 4.585799979395233e-05, 13, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb","next_steps":["__end__"],"iteration":3,"visits":{"add":3}}', '\x02001812bf0382a16e03a47365656e93000102');
INSERT INTO holdfast.entries VALUES ('counting', 4, 'complete', '\x0239114394530193e83a', 3, 4, '\xc62ae8f9409776a272e5c9fe7ab3749b1e417886302cf024a708444ef9eb3f00', NULL, NULL, NULL, 'completed', 1767226200000000, NULL, 0, 'counting', NULL, NULL, '{"flow_version":"1","shape":"ef87684ab3bb"}', '\x02005896c67c');
INSERT INTO holdfast.entries VALUES ('approved', 0, 'open', '\xe75543c95c1028dc3b86', NULL, 0, '\xed6bfd69c7a870fdac994af8f3a68e7c3a433c72f3740d10d343d45165885ef4', NULL, NULL, NULL, 'running', 1767226200000000, NULL, 4, 'approved', NULL, NULL, '{"flow_version":"1","structure":{"parameters":["n"],"code":"fb2ed3a1dee0aa42"},"inputs_hash":"f3e0792e105e2bfe88e7b3bab5097b93a59a8c5b239fe3c6f87a8d0f72ab9032","birth":"2c9e1aa7a7ffa7d72142","labels":{"team":"gold"},"holder":"0|34ffa0cf1ceb15241b19|golden|golden|1|"}', '\x0200971e7bc181a16e04');
INSERT INTO holdfast.entries VALUES ('approved', 1, 'result', '\x56e5c094b1d8c1c4c156', NULL, 0, '\x4d8fe5ae72e09062b21f7ce7b0f2104b1777556927c58baa4f9a7a42a130b874', 'double', NULL, NULL, 'running', 1767226200000000, 3.570300032151863e-05, 1, 'approved', NULL, NULL, '{"flow_version":"1","args":"GkgW2X+Zv0x6xuoAXTxukL7U"}', '\x02000a5510ef08');
INSERT INTO holdfast.entries VALUES ('approved', 2, 'question', '\x30983908ae5c5f1d993a', 1, 2, '\xac210e2c1f98df2f8c5494f08cf688dcaf2196fad9ca5ae7f217a16856add8f8', 'ask', NULL, NULL, 'paused', 1767226200000000, NULL, 52, 'approved', NULL, NULL, '{"flow_version":"1","questions":1}', '\x020077c75a9183a670726f6d7074a6476f206f6e3fa6736368656d6181a4656e756d92a3796573a26e6fa763686f6963657392a3796573a26e6f');
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
