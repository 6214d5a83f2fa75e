"""The schema of a PostgreSQL store and its migrations."""

from __future__ import annotations

from typing import Any, Final

import psycopg

from holdfast.errors import SchemaError
from holdfast.seams import fault
from holdfast.stores._shared.schema import (
    LOCK_SECONDS,
    MARK,
    MIGRATION_SECONDS,
    too_long,
    version_in,
)
from holdfast.stores.postgres import index
from holdfast.stores.postgres.connections import patient

# Not every server knows all of them.
_UNLIMITED: Final = """
    SELECT set_config(name, '0', true) FROM pg_settings
    WHERE name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout')
"""

MIGRATIONS: Final[tuple[str, ...]] = (
    # 1: the journal; who watches it; the view for people
    """
    CREATE TABLE {schema}.entries (
        run text COLLATE "C" NOT NULL, seq bigint NOT NULL, kind text NOT NULL,
        entry_id bytea NOT NULL, parent bigint, term bigint NOT NULL, digest bytea NOT NULL,
        step text, step_index bigint, type text, status text NOT NULL, at bigint NOT NULL,
        duration double precision, size bigint NOT NULL, flow text, thread text, owner text,
        meta text NOT NULL, body bytea NOT NULL, PRIMARY KEY (run, seq)
    );
    -- Bodies are compressed already, or too small to be.
    ALTER TABLE {schema}.entries ALTER body SET STORAGE EXTERNAL;

    CREATE TABLE {schema}.watchers (pid integer PRIMARY KEY);

    -- Texts that PostgreSQL can't show are passed over, so that one does not hide all the others.
    CREATE VIEW {schema}.checkpoints AS SELECT
        run || '@' || seq AS checkpoint_id, thread AS thread_id, flow AS pipeline_id,
        shown ->> 'flow_version' AS pipeline_version, step AS step_id, step_index,
        coalesce(shown ->> 'step_name', step) AS step_name,
        timestamptz 'epoch' + greatest(at, -62135596800000000) * interval '1 microsecond'
            AS timestamp,
        coalesce((shown -> 'metadata')::text, '{{}}') AS metadata,
        run || '@' || parent AS parent_checkpoint_id,
        CASE WHEN status IN ('failed', 'paused') THEN status ELSE 'completed' END AS status,
        run AS run_id, seq AS sequence, type AS checkpoint_type, owner AS owner_id, duration,
        size AS state_bytes, octet_length(body) AS stored_bytes, encode(digest, 'hex') AS digest
    FROM {schema}.entries, LATERAL (SELECT
        CASE WHEN meta <> '' AND meta !~ '\\\\u(0000|[dD][89a-fA-F])' THEN meta::json END
    ) AS json(shown)
    WHERE kind IN ('checkpoint', 'result') AND size > 0;
    """,
    # 2: how entries are appended. Columns come in the order of `Entry`, as NULL if they hold nothing
    # else, and then the digest that a run's head must have, beside its first entry; the answer is
    # whether somebody watches.
    """
    -- Three rows a page, not four, before bodies are stored elsewhere: that takes as long again.
    ALTER TABLE {schema}.entries SET (toast_tuple_target = 2712);

    -- A session keeps the plans of a function, also where no statement can be prepared. So one made
    -- for a small table must do for a large one.
    CREATE FUNCTION {schema}.append(
        text[], bigint[], text[], bytea[], bigint[], bigint[], bytea[], text[], bigint[], text[],
        text[], bigint[], double precision[], bigint[], text[], text[], text[], text[], bytea[],
        bytea[]
    ) RETURNS boolean LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $append$
    BEGIN
        INSERT INTO {schema}.entries (
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
                SELECT true FROM {schema}.entries AS e
                WHERE e.run = own.run AND e.seq > own.seq AND e.seq < own.next LIMIT 1
            ) OR CASE
                WHEN own.behind <> '' THEN (
                    SELECT e.digest FROM {schema}.entries AS e
                    WHERE e.run = own.run AND e.seq < own.seq
                        AND (own.begins OR e.seq = own.seq - 1)
                    ORDER BY e.seq DESC LIMIT 1
                ) IS DISTINCT FROM own.behind
                WHEN own.behind = '' AND (
                    SELECT true FROM {schema}.entries AS e
                    WHERE e.run = own.run AND e.seq < own.seq LIMIT 1
                ) THEN true
                WHEN own.begins OR own.previous = own.seq - 1 THEN false
                ELSE (
                    SELECT true FROM {schema}.entries AS e
                    WHERE e.run = own.run AND e.seq = own.seq - 1 LIMIT 1
                ) IS NULL
            END
        ) THEN
            RAISE EXCEPTION 'it is not the next entry' USING ERRCODE = 'unique_violation';
        END IF;
        RETURN EXISTS (SELECT FROM {schema}.watchers);
    END $append$;
    """,
    # 3: the heads index
    index.SCHEMA,
)
_INDEXED: Final = 3


def prepare(cursor: psycopg.Cursor[Any], schema: str, url: str) -> None:
    """Bring the schema up to date. If it is already, this needs no rights."""
    if cursor.connection.info.parameter_status("server_encoding") != "UTF8":
        raise SchemaError(
            url, "its encoding is not UTF8; use a database that was created with ENCODING 'UTF8'"
        )
    if version_of(cursor, schema, url) == len(MIGRATIONS):
        return
    with cursor.connection.transaction():
        # At another level we would see, after the wait, what was there before it.
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE")
        _lock(cursor, url)
        version = version_of(cursor, schema, url)
        if version == len(MIGRATIONS):
            return  # another was faster
        with patient(cursor.connection, MIGRATION_SECONDS):
            _migrate(cursor, schema, version, url)


def _lock(cursor: psycopg.Cursor[Any], url: str) -> None:
    """Lock out other migrations until the transaction ends, and lift the role's time limits."""
    cursor.execute(_UNLIMITED)
    cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
    try:
        with patient(cursor.connection, LOCK_SECONDS):
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", ("holdfast",))
    except psycopg.errors.LockNotAvailable as error:
        raise too_long(url) from error
    cursor.execute("SET LOCAL lock_timeout = 0")


def _migrate(cursor: psycopg.Cursor[Any], schema: str, version: int, url: str) -> None:
    name = f'"{schema}"'
    if not cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall():
        cursor.execute(f"CREATE SCHEMA {name}")
    try:
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            cursor.execute(script.format(schema=name))
            if number == _INDEXED:
                index.build(cursor, name)
            fault("schema.migrate")
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateFunction) as error:
        raise SchemaError(
            url,
            "this schema has tables that holdfast did not create; open the store with another schema=",
        ) from error
    cursor.execute(f"COMMENT ON TABLE {name}.entries IS '{MARK}{len(MIGRATIONS)}'")


def version_of(cursor: psycopg.Cursor[Any], schema: str, url: str) -> int:
    """The version of the schema, 0 if there is none. Raises `SchemaError` for a newer one."""
    # Not to_regclass: it may remember from before a wait that there was none.
    cursor.execute(
        "SELECT obj_description(c.oid, 'pg_class') FROM pg_class AS c JOIN pg_namespace AS n "
        "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = 'entries'",
        (schema,),
    )
    (comment,) = cursor.fetchone() or (None,)
    return version_in(comment, url, len(MIGRATIONS)) or 0
