-- What degraded documents are served with, and when they are parsed again. A promotion is a claim (claimed is set)
-- on a document that stays published.
ALTER TABLE documents
    ADD COLUMN structure jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN claimed_at timestamptz,
    ADD COLUMN fresh boolean NOT NULL DEFAULT false,
    ADD COLUMN promotions integer NOT NULL DEFAULT 0,
    ADD COLUMN promotion_at timestamptz;

CREATE INDEX documents_to_promote ON documents (promotion_at) WHERE promotion_at IS NOT NULL;

-- What waits is counted, with its bytes, before an upload is taken in.
CREATE INDEX documents_waiting ON documents (state) INCLUDE (size) WHERE state = 'queued';

-- Degraded results, for equal bytes that come again while they are young.
CREATE TABLE parse_results (
    tenant text NOT NULL,
    sha256 text NOT NULL,
    media_type text NOT NULL,
    result bytea NOT NULL,
    due timestamptz NOT NULL,
    PRIMARY KEY (tenant, sha256, media_type)
);

CREATE INDEX parse_results_by_due ON parse_results (due);

-- A tenant's last turn, and the turn that is next, are read at every upload.
CREATE INDEX procrastinate_jobs_turns ON procrastinate_jobs (task_name, (args ->> 'tenant'), priority)
    WHERE status = 'todo';
CREATE INDEX procrastinate_jobs_fronts ON procrastinate_jobs (task_name, priority) WHERE status = 'todo';
