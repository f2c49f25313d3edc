-- Whether a job waits for a document is asked on every upload.
CREATE INDEX procrastinate_jobs_waiting_by_lock ON procrastinate_jobs (lock) WHERE status = 'todo';
