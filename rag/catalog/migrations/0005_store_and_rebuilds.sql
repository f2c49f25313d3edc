-- Which store the collections are indexed in: another one would know nothing of them.
CREATE TABLE vector_store (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    kind text NOT NULL,
    location text NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now()
);

-- Collections whose index is being made again: generations up to the mark are the old ones.
CREATE TABLE rebuilds (
    collection uuid PRIMARY KEY REFERENCES collections ON DELETE CASCADE,
    mark bigint NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT now()
);
