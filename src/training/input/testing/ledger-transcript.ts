/**
 * Runs a transcript of a ledger: `>` lines are events, `#` lines are comments, the rest are the effects. A transcript
 * passes if the output equals the input.
 */
import {
  IDS_PER_GENERATION,
  type LedgerEffect,
  type LedgerEvent,
  type LedgerSnapshot,
  type LedgerState,
  newLedger,
  reduceLedger,
  restoreLedger,
  snapshotOf,
} from '../leases/ledger.js';

function effectText(effect: LedgerEffect): string {
  switch (effect.type) {
    case 'grant': {
      const { id, epoch, file, from, to } = effect.lease;
      return `${effect.worker} gets lease ${idText(id)}: epoch ${epoch}, ${file} ${from}–${to}`;
    }
    case 'wait':
      return `${effect.worker} waits`;
    case 'end':
      return `${effect.worker} reaches the end`;
    case 'refuse':
      return `${effect.worker} is refused, lease ${idText(effect.lease)}: ${effect.why}`;
    case 'epoch-over':
      return `epoch ${effect.epoch} is over`;
    case 'all-over':
      return 'all is over';
  }
}

/** `2.1` is the first lease of the second generation after the start. */
const idText = (id: number): string => {
  const generation = Math.floor(id / IDS_PER_GENERATION);
  return generation === 0 ? String(id) : `${generation}.${id % IDS_PER_GENERATION}`;
};
const idOf = (text: string): number => {
  const [first, second] = text.split('.').map(Number) as [number, number?];
  return second === undefined ? first : first * IDS_PER_GENERATION + second;
};

/** `6`: up to there. `4–6`: from one place to another. */
const placesOf = (text: string): { from?: number; upTo: number } => {
  const [first, second] = text.split('–').map(Number) as [number, number?];
  return second === undefined ? { upTo: first } : { from: first, upTo: second };
};

export function play(script: string): string {
  const out: string[] = [];
  let state: LedgerState | undefined;
  let snapshot: string | undefined;
  const happen = (event: LedgerEvent) => {
    if (!state) throw new Error('a transcript begins with > ledger');
    const step = reduceLedger(state, event);
    state = step.state;
    for (const effect of step.effects) out.push(`     ${effectText(effect)}`);
  };
  for (const line of script.split('\n')) {
    if (line.startsWith('#') || line.trim() === '') out.push(line);
    if (!line.startsWith('>')) continue;
    out.push(line);
    const [verb, ...words] = line.slice(1).trim().split(/\s+/);
    const [first = '', second = '', third = ''] = words;
    switch (verb) {
      case 'ledger': {
        const epochs = words.find((word) => word.startsWith('epochs='))?.slice(7) ?? '1';
        const shards = words.filter((word) => /^\w+:\d+$/.test(word)).map((word) => word.split(':'));
        state = newLedger({
          shards: shards.map(([file = '', records]) => ({ file, offset: 0, records: Number(records) })),
          epochs: epochs === 'forever' ? null : Number(epochs),
          seed: 1,
          shuffleShards: words.includes('shuffled'),
        });
        break;
      }
      case 'ask':
        happen({
          type: 'ask',
          worker: first,
          holding: second === 'holding' ? words.slice(2).map(idOf) : undefined,
        });
        break;
      case 'ack':
        happen({ type: 'ack', worker: first, lease: idOf(second), ...placesOf(third) });
        break;
      case 'lost':
        happen({ type: 'lost', worker: first });
        break;
      case 'snapshot':
        snapshot = JSON.stringify(snapshotOf(state as LedgerState));
        break;
      case 'restore':
        state = restoreLedger(JSON.parse(snapshot as string) as LedgerSnapshot, state?.generation);
        break;
      case 'count': {
        const { consumed, open } = state as LedgerState;
        const left = open.map(({ epoch, records }) => `${records} of epoch ${epoch}`).join(', ') || 'nothing';
        out.push(`     ${consumed} consumed, ${left} left`);
        break;
      }
      default:
        throw new Error(`unknown event in the transcript: ${verb}`);
    }
  }
  return out.join('\n');
}
