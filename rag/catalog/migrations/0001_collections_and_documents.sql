-- Collections, and the physical collections that hold their vectors: one for each embedding model.
CREATE TABLE collections (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    live bigint NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant, name)
);

CREATE TABLE physical_collections (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection uuid NOT NULL REFERENCES collections ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    name text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9_]{1,60}$'),
    embedding_model text NOT NULL,
    spec jsonb NOT NULL,
    documents bigint NOT NULL DEFAULT 0,
    chunks bigint NOT NULL DEFAULT 0,
    total_terms bigint NOT NULL DEFAULT 0,
    UNIQUE (collection, embedding_model)
);

-- In how many chunks of a physical collection a term stands.
CREATE TABLE term_counts (
    physical bigint NOT NULL REFERENCES physical_collections ON DELETE CASCADE,
    term bigint NOT NULL,
    chunks bigint NOT NULL,
    PRIMARY KEY (physical, term)
) WITH (fillfactor = 80);

CREATE SEQUENCE generations AS bigint;

-- generation is what is served; claimed is what the running attempt writes.
CREATE TABLE documents (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    collection uuid NOT NULL REFERENCES collections,
    source text NOT NULL,
    media_type text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    acl text[] NOT NULL DEFAULT '{}',
    given_title text,
    state text NOT NULL CHECK (state IN ('queued', 'running', 'published', 'failed', 'cancelled')),
    stage text,
    attempt integer NOT NULL DEFAULT 0,
    tries integer NOT NULL DEFAULT 0,
    claimed bigint,
    generation bigint,
    title text,
    quality text,
    text_sha256 text,
    text_size bigint,
    chunks integer NOT NULL DEFAULT 0,
    characters bigint NOT NULL DEFAULT 0,
    encoding text,
    error_code text,
    error_message text,
    attempts jsonb NOT NULL DEFAULT '[]',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    published_at timestamptz,
    UNIQUE (collection, source, tenant)
) WITH (fillfactor = 80);

CREATE INDEX documents_by_age ON documents (collection, created_at, id);
CREATE INDEX documents_unfinished ON documents (collection, state) WHERE state IN ('queued', 'running');
CREATE INDEX documents_by_blob ON documents (sha256);
CREATE INDEX documents_by_text_blob ON documents (text_sha256);

-- What a served generation added to the statistics, so that taking it away is exact.
CREATE TABLE generation_terms (
    generation bigint PRIMARY KEY,
    document uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    chunks bigint NOT NULL,
    total_terms bigint NOT NULL,
    terms bigint[] NOT NULL,
    counts bigint[] NOT NULL
);

CREATE INDEX generation_terms_by_document ON generation_terms (document);

-- What stores may still hold of generations and physical collections that are served no longer.
CREATE TABLE garbage (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    physical text NOT NULL,
    document uuid,
    generation bigint,
    due timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX garbage_by_due ON garbage (due);
