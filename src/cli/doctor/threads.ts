/** How many blocking calls can be under way at once? */
import { SUGGESTED_POOL_SIZE, threadPool } from '../../async/thread-pool.js';
import { type Finding, ok, warning } from './finding.js';

const FEW = 16;

export function checkThreadPool(): Finding {
  const pool = threadPool();
  const origin = { environment: 'from UV_THREADPOOL_SIZE', shoal: 'set by shoal', default: 'Node’s default' }[
    pool.from
  ];
  const summary = `${pool.size} threads, ${origin}${pool.certain ? '' : ' (perhaps set too late)'}`;
  if (pool.certain && pool.size >= FEW) return ok('threads', summary, { ...pool });
  const mend = `Start Node with UV_THREADPOOL_SIZE=${SUGGESTED_POOL_SIZE}: each blocking call into TensorFlow holds one thread.`;
  return warning('threads', summary, mend, { ...pool });
}
