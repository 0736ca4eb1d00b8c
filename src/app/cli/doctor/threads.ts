/** Checks the thread pool, which limits the number of concurrent blocking calls. */
import { SUGGESTED_POOL_SIZE, threadPool } from '../../../base/async/thread-pool.js';
import { type Finding, ok, warning } from './finding.js';

const MIN_THREADS = 16;

export function checkThreadPool(): Finding {
  const pool = threadPool();
  const origin = { environment: 'from UV_THREADPOOL_SIZE', shoal: 'set by shoal', default: 'Node’s default' }[
    pool.from
  ];
  const summary = `${pool.size} threads, ${origin}${pool.certain ? '' : ' (possibly set too late)'}`;
  if (pool.certain && pool.size >= MIN_THREADS) return ok('threads', summary, { ...pool });
  const fix = `Start Node with UV_THREADPOOL_SIZE=${SUGGESTED_POOL_SIZE}: each blocking call into TensorFlow occupies one thread.`;
  return warning('threads', summary, fix, { ...pool });
}
