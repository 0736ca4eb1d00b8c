/**
 * Runs a transcript of looks at a synchronous step: `>` lines are events, `#` lines are comments, the rest are the effects.
 * A transcript passes if the output equals the input.
 *
 *   > seen 3 step=7 w0:waits w1:computes ps0:2 ps1:taken    at 3 s, ps 0 has two gradients
 *   > made 12
 *
 * Workers: `waits`, `computes`, `away`, `over`; `waits+1` has a token.
 */
import {
  newSyncStall,
  reduceSyncStall,
  type SyncDevice,
  type SyncStallEvent,
  type SyncWorker,
} from '../recovery/sync-stall.js';

const workerOf = (task: string, text: string): SyncWorker => {
  const [what = '', tokens = '0'] = text.split('+');
  const status = what === 'away' || what === 'over' ? what : 'present';
  return { task, status, waits: what === 'waits', tokens: Number(tokens) };
};

const deviceOf = (name: string, text: string): SyncDevice => {
  const isTaken = text === 'taken';
  return { name, isTaken, gradients: isTaken ? 0 : Number(text) };
};

function eventOf([verb, at, step, ...tasks]: readonly string[], needsAll: boolean): SyncStallEvent {
  const ms = Number(at) * 1000;
  if (verb === 'made') return { type: 'made', at: ms };
  if (verb !== 'seen') throw new Error(`unknown event in the transcript: ${verb}`);
  const parts = tasks.map((task) => task.split(':') as [string, string]);
  const workers = parts.flatMap(([task, text]) => (task.startsWith('w') ? [workerOf(task, text)] : []));
  const devices = parts.flatMap(([task, text]) => (task.startsWith('ps') ? [deviceOf(task, text)] : []));
  const view = {
    step: Number(step?.slice('step='.length)),
    required: workers.length,
    needsAll,
    workers,
    devices,
  };
  return { type: 'seen', at: ms, view };
}

export function play(script: string): string {
  const out: string[] = [];
  let state = newSyncStall(3000);
  let needsAll = false;
  for (const line of script.split('\n')) {
    if (line.startsWith('#') || line.trim() === '') out.push(line);
    if (!line.startsWith('>')) continue;
    out.push(line);
    const words = line.slice(1).trim().split(/\s+/);
    if (words[0] === 'deterministic') {
      needsAll = true;
      continue;
    }
    const next = reduceSyncStall(state, eventOf(words, needsAll));
    state = next.state;
    const { effect } = next;
    if (effect)
      out.push(`     ${effect.type === 'wait' ? 'waits' : effect.type.toUpperCase()} ${effect.what}`);
  }
  return out.join('\n');
}
