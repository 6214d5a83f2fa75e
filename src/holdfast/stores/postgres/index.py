"""The heads index in a PostgreSQL schema: its tables, and how its rows are written and made anew.

Statistics are added up later (`fold_tally`): if each change updated a number, all writers would
wait for each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import psycopg

from holdfast.heads import HOUR, NOW, RowChange, RunHead, changes_of
from holdfast.model import Entry
from holdfast.stores._shared.index import HEAD_COLUMNS, as_row
from holdfast.stores._shared.rebuilding import NOW_COLUMNS, Journals
from holdfast.stores._shared.table import Row

FOLD_EVERY: Final = 500
"""After so many changes by one store, it adds up the statistics that are new."""

_BATCH: Final = 1000

_SCHEMA: Final = """
    -- Nobody appends until the index is made.
    LOCK TABLE {schema}.entries IN SHARE MODE;

    CREATE TABLE {schema}.run_heads (
        run text COLLATE "C" PRIMARY KEY, opened bigint NOT NULL, changed bigint NOT NULL,
        status text COLLATE "C" NOT NULL, flow text COLLATE "C", thread text COLLATE "C",
        owner text COLLATE "C", parent text COLLATE "C", holder text COLLATE "C", due bigint,
        questions bigint NOT NULL, labels text NOT NULL, seq bigint NOT NULL
    );
    CREATE INDEX ON {schema}.run_heads (opened, run);
    CREATE INDEX ON {schema}.run_heads (status, opened, run);
    CREATE INDEX ON {schema}.run_heads (flow, opened, run) WHERE flow IS NOT NULL;
    CREATE INDEX ON {schema}.run_heads (flow, status, opened, run) WHERE flow IS NOT NULL;
    CREATE INDEX ON {schema}.run_heads (owner, opened, run) WHERE owner IS NOT NULL;
    CREATE INDEX ON {schema}.run_heads (owner, status, opened, run) WHERE owner IS NOT NULL;
    CREATE INDEX ON {schema}.run_heads (thread, opened, run) WHERE thread IS NOT NULL;
    CREATE INDEX ON {schema}.run_heads (holder, opened, run) WHERE holder IS NOT NULL;
    CREATE INDEX ON {schema}.run_heads (due, run) WHERE due IS NOT NULL;
    CREATE INDEX ON {schema}.run_heads (flow, due, run) WHERE due IS NOT NULL AND parent IS NULL;
    CREATE INDEX ON {schema}.run_heads (due, run) WHERE due IS NOT NULL AND parent IS NOT NULL;
    CREATE INDEX ON {schema}.run_heads (opened, run) WHERE questions > 0;
    CREATE INDEX ON {schema}.run_heads (opened, run) WHERE parent IS NULL;
    CREATE TABLE {schema}.run_labels (
        label text COLLATE "C", opened bigint, run text COLLATE "C",
        PRIMARY KEY (label, opened, run)
    );
    CREATE TABLE {schema}.run_tally_sums (
        hour bigint, flow text COLLATE "C", what text COLLATE "C", bucket bigint,
        n bigint NOT NULL, total bigint NOT NULL, PRIMARY KEY (hour, flow, what, bucket)
    );
    CREATE TABLE {schema}.run_tally_new (
        hour bigint NOT NULL, flow text COLLATE "C" NOT NULL, what text COLLATE "C" NOT NULL,
        bucket bigint NOT NULL, n bigint NOT NULL, total bigint NOT NULL
    );
    CREATE VIEW {schema}.run_tally AS
    SELECT hour, flow, what, bucket, sum(n)::bigint AS n, sum(total)::bigint AS total FROM (
        SELECT * FROM {schema}.run_tally_sums UNION ALL SELECT * FROM {schema}.run_tally_new
    ) AS every GROUP BY hour, flow, what, bucket;

    -- `heads.applied` and `heads.differences`, for `RowChange`s as JSON.
    CREATE FUNCTION {schema}.change_heads(changes jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $change$
    DECLARE
        c record;
        old record;
        known boolean;
        spent bigint;
        counted {schema}.run_tally_new[] := '{{}}';
    BEGIN
        FOR c IN SELECT * FROM jsonb_to_recordset(changes) AS c(
            run text, removes boolean, first bigint, keeps_holder boolean, keeps_due boolean,
            keeps_questions boolean, opened bigint, changed bigint, status text, flow text,
            thread text, owner text, parent text, holder text, due bigint, questions bigint,
            labels text, seq bigint
        ) LOOP
            SELECT h.* INTO old FROM {schema}.run_heads AS h WHERE h.run = c.run;
            known := FOUND;
            IF known AND c.removes THEN
                DELETE FROM {schema}.run_heads AS h WHERE h.run = c.run;
                DELETE FROM {schema}.run_labels AS l
                    USING json_array_elements_text(old.labels::json) AS own(label)
                    WHERE l.label = own.label AND l.opened = old.opened
                    AND l.run = c.run;
                counted := counted || ROW(
                    {now}, coalesce(old.flow, ''), old.status, 0, -1, 0
                )::{schema}.run_tally_new;
                known := false;
            END IF;
            CONTINUE WHEN c.status IS NULL;
            IF known THEN
                UPDATE {schema}.run_heads AS h SET
                    changed = c.changed, status = c.status, flow = c.flow, thread = c.thread,
                    owner = c.owner, seq = c.seq,
                    holder = CASE WHEN c.keeps_holder THEN h.holder ELSE c.holder END,
                    due = CASE WHEN c.keeps_due THEN h.due ELSE c.due END,
                    questions = CASE WHEN c.keeps_questions THEN h.questions ELSE c.questions END
                WHERE h.run = c.run;
                spent := greatest(0, c.changed - old.opened);
            ELSE
                INSERT INTO {schema}.run_heads ({columns}) VALUES (
                    c.run, c.opened, c.changed, c.status, c.flow, c.thread, c.owner, c.parent,
                    c.holder, c.due, c.questions, c.labels, c.seq
                );
                INSERT INTO {schema}.run_labels SELECT own.label, c.opened, c.run
                    FROM json_array_elements_text(c.labels::json) AS own(label);
                spent := greatest(0, c.changed - c.opened);
                counted := counted || ROW(
                    greatest(0, c.opened / {hour}), coalesce(c.flow, ''), 'started', 0, 1, 0
                )::{schema}.run_tally_new;
                old.flow := NULL;
                old.status := NULL;
                old.seq := c.first - 1;
            END IF;
            IF known AND (old.flow, old.status) IS DISTINCT FROM (c.flow, c.status) THEN
                counted := counted || ROW(
                    {now}, coalesce(old.flow, ''), old.status, 0, -1, 0
                )::{schema}.run_tally_new;
            END IF;
            IF NOT known OR (old.flow, old.status) IS DISTINCT FROM (c.flow, c.status) THEN
                counted := counted || ROW(
                    {now}, coalesce(c.flow, ''), c.status, 0, 1, 0
                )::{schema}.run_tally_new;
            END IF;
            IF c.seq > old.seq THEN
                counted := counted || ROW(
                    greatest(0, c.changed / {hour}), coalesce(c.flow, ''), 'saves', 0,
                    c.seq - old.seq, 0
                )::{schema}.run_tally_new;
            END IF;
            IF c.status IN ('completed', 'failed', 'cancelled', 'paused')
                AND old.status IS DISTINCT FROM c.status
            THEN
                IF c.status = 'paused' THEN
                    spent := 0;
                END IF;
                counted := counted || ROW(
                    greatest(0, c.changed / {hour}), coalesce(c.flow, ''), c.status,
                    CASE WHEN spent < 1000 THEN 0
                        ELSE length(ltrim((spent / 1000)::bit(64)::text, '0')) END, 1, spent
                )::{schema}.run_tally_new;
            END IF;
        END LOOP;
        INSERT INTO {schema}.run_tally_new
        SELECT f.hour, f.flow, f.what, f.bucket, sum(f.n), sum(f.total) FROM unnest(counted) AS f
        GROUP BY f.hour, f.flow, f.what, f.bucket HAVING sum(f.n) <> 0;
    END $change$;

    -- Returns whether it did: only one at a time adds up.
    CREATE FUNCTION {schema}.fold_tally() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $fold$
    BEGIN
        IF NOT pg_try_advisory_xact_lock(hashtextextended('{schema} tally', 0)) THEN
            RETURN false;
        END IF;
        WITH new AS (DELETE FROM {schema}.run_tally_new RETURNING *)
        INSERT INTO {schema}.run_tally_sums AS sums
        SELECT hour, flow, what, bucket, sum(n), sum(total) FROM new
        GROUP BY hour, flow, what, bucket
        ON CONFLICT (hour, flow, what, bucket)
        DO UPDATE SET n = sums.n + excluded.n, total = sums.total + excluded.total;
        RETURN true;
    END $fold$;

    -- Most entries change no row, and are appended by the function of before, under another name.
    ALTER FUNCTION {schema}.append RENAME TO append_entries;
    CREATE FUNCTION {schema}.append_and_index(
        text[], bigint[], text[], bytea[], bigint[], bigint[], bytea[], text[], bigint[], text[],
        text[], bigint[], double precision[], bigint[], text[], text[], text[], text[], bytea[],
        bytea[], changes text
    ) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $append$
    DECLARE
        watched boolean := {schema}.append_entries(
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
            $20
        );
    BEGIN
        PERFORM {schema}.change_heads(changes::jsonb);
        RETURN watched;
    END $append$;
"""

SCHEMA: Final = (
    _SCHEMA.replace("{now}", str(NOW))
    .replace("{hour}", str(HOUR))
    .replace("{columns}", HEAD_COLUMNS)
)
"""The migration that makes the index; its `{schema}` is still to be named."""


def changes_text(entries: Sequence[Entry]) -> str | None:
    """What entries do to rows, as JSON for `change_heads`; None if nothing."""
    found = changes_of(entries)
    return json.dumps([_as_json(change) for change in found]) if found else None


def fold_tally(cursor: psycopg.Cursor[Any], schema: str) -> None:
    """Add up the statistics that are new, outside of any transaction."""
    if cursor.execute(f"SELECT {schema}.fold_tally()").fetchone() == (True,):
        # Else readers look through what is deleted, until the server cleans up by itself.
        cursor.execute(f"VACUUM {schema}.run_tally_new")


def journals(cursor: psycopg.Cursor[Any], schema: str) -> Journals:
    """The journals and the index, to compare them."""
    return Journals(
        lambda query, values: cursor.execute(query, values, binary=True).fetchall(),
        f"{schema}.entries", f"{schema}.", "%s", "''::bytea",
    )  # fmt: skip


def build(cursor: psycopg.Cursor[Any], schema: str) -> None:
    """Make the index of a schema that has none, in a transaction."""
    rows: list[RunHead] = []

    def put(row: RunHead) -> None:
        rows.append(row)
        if len(rows) >= _BATCH:
            _insert(cursor, schema, rows)
            rows.clear()

    counted = journals(cursor, schema).built(put)
    _insert(cursor, schema, rows)
    _insert_tally(cursor, schema, counted)
    _count_anew(cursor, schema)


def correct(cursor: psycopg.Cursor[Any], schema: str, runs: Iterable[str]) -> None:
    """Make the rows of these runs anew, in a transaction. Changes of rows wait meanwhile."""
    cursor.execute(f"LOCK TABLE {schema}.run_heads IN SHARE ROW EXCLUSIVE MODE")
    own = journals(cursor, schema)
    for run in runs:
        cursor.execute(f"DELETE FROM {schema}.run_heads WHERE run = %s", (run,))  # noqa: S608
        row = own.right(run)
        if row is not None:
            _insert(cursor, schema, [row])
    _count_anew(cursor, schema)


def _insert(cursor: psycopg.Cursor[Any], schema: str, rows: Sequence[RunHead]) -> None:
    marks = ", ".join(["%s"] * len(RunHead._fields))
    cursor.executemany(
        f"INSERT INTO {schema}.run_heads ({HEAD_COLUMNS}) VALUES ({marks})",  # noqa: S608
        list(map(as_row, rows)),
    )
    cursor.executemany(
        f"INSERT INTO {schema}.run_labels VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",  # noqa: S608
        [(label, row.opened, row.run) for row in rows for label in row.labels],
    )


def _insert_tally(cursor: psycopg.Cursor[Any], schema: str, counted: Sequence[Row]) -> None:
    cursor.executemany(
        f"INSERT INTO {schema}.run_tally_new VALUES (%s, %s, %s, %s, %s, %s)",  # noqa: S608
        counted,
    )


def _count_anew(cursor: psycopg.Cursor[Any], schema: str) -> None:
    for table in ("run_tally_sums", "run_tally_new"):
        cursor.execute(f"DELETE FROM {schema}.{table} WHERE hour = {NOW}")  # noqa: S608
    now = journals(cursor, schema).now
    cursor.execute(f"INSERT INTO {schema}.run_tally_sums ({NOW_COLUMNS}) {now}")


def _as_json(change: RowChange) -> dict[str, object]:
    found: dict[str, object] = {"run": change.run, "removes": change.removes}
    if change.makes is not None:
        row = dict(zip(RunHead._fields, as_row(change.makes), strict=True))
        found |= row | {
            "first": change.first,
            "keeps_holder": change.keeps_holder,
            "keeps_due": change.keeps_due,
            "keeps_questions": change.keeps_questions,
        }
    return found
