-- Blobs that lost a reference; removed once nothing refers to them and they have aged.
CREATE TABLE blob_garbage (
    tenant text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    due timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, sha256)
);

CREATE INDEX blob_garbage_by_due ON blob_garbage (due);
