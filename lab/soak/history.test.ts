import { describe, expect, it } from 'vitest';
import { type HistoryEvent, newHistory, reduceHistory, violationsOf } from './history.js';
import { eventIn } from './task-log.js';

type Untimed<T> = T extends unknown ? Omit<T, 'at'> & { readonly at?: number } : never;

/** The violations of events that happen a second apart, after a chief (process 1) and a worker (2) have started. */
function check(...events: readonly Untimed<HistoryEvent>[]): readonly string[] {
  const begun: readonly Untimed<HistoryEvent>[] = [
    { type: 'started', process: 1, task: 'worker 0' },
    { type: 'started', process: 2, task: 'worker 1' },
    { type: 'started', process: 3, task: 'ps 0' },
  ];
  const timed = [...begun, ...events].map((event, i) => ({ at: 1000 * i, ...event }) as HistoryEvent);
  return violationsOf(timed.reduce(reduceHistory, newHistory()));
}

const successor = { type: 'started', process: 9, task: 'worker 0' } as const;
const step = (process: number, now: number) => ({ type: 'step', process, step: now }) as const;
const saved = (process: number, now: number) => ({ type: 'saved', process, step: now }) as const;
const restored = (process: number, now: number) => ({ type: 'restored', process, step: now }) as const;
const committed = (by: number, now: number) =>
  ({ type: 'committed', process: 3, step: now, sequence: now, by }) as const;

describe('saves and restores', () => {
  it('of one chief, and of its successor after a loss', () => {
    expect(
      check(
        step(2, 5),
        committed(7, 10),
        saved(1, 10),
        step(2, 30),
        { type: 'ended', process: 1 },
        successor,
        restored(9, 10),
        step(2, 12),
        committed(8, 20),
        saved(9, 20),
        { type: 'restorable', step: 20 },
      ),
    ).toEqual([]);
  });

  it('a restore of less than what was acknowledged', () => {
    expect(check(saved(1, 10), saved(1, 20), restored(1, 10))).toEqual([
      'step 10 was restored, although the save of step 20 was acknowledged',
    ]);
  });

  it('a save that was published but not acknowledged may be restored or not', () => {
    expect(check(saved(1, 10), committed(7, 20), restored(1, 20))).toEqual([]);
    expect(check(saved(1, 10), committed(7, 20), restored(1, 10))).toEqual([]);
  });

  it('an acknowledged save that is not on the disks', () => {
    expect(check(saved(1, 10), { type: 'restorable', step: 5 })).toEqual([
      'the newest checkpoint on the disks is of step 5, although the save of step 10 was acknowledged',
    ]);
  });

  it('a save of an older step', () => {
    expect(check(saved(1, 10), saved(1, 9))).toEqual([
      'the save of step 9 was acknowledged after that of step 10',
    ]);
  });
});

describe('two chiefs', () => {
  it('that acknowledge alternately', () => {
    expect(check(saved(1, 10), successor, saved(9, 20), saved(1, 30))).toEqual([
      'process 1 of the chief acknowledged the save of step 30, after its successor 9 had acknowledged one',
    ]);
  });

  it('whose commits one task accepts alternately', () => {
    expect(check(committed(7, 10), successor, committed(8, 20), committed(7, 30))).toEqual([
      'ps 0 accepted the checkpoint of step 30 from chief 7, after one from its successor 8',
    ]);
  });
});

describe('runs', () => {
  const ran = (by: number, unfinished = 0) =>
    ({ type: 'ran', process: 3, of: '/job:worker/task:0', by, unfinished }) as const;

  it('of a process, of its successor, and of other tasks', () => {
    expect(check(ran(7), ran(8), { ...ran(5), of: '/job:worker/task:1' })).toEqual([]);
  });

  it('of a process that has a successor', () => {
    expect(check(ran(7), ran(8), ran(7))).toEqual([
      'ps 0 executed a run of /job:worker/task:0, incarnation 7, after one of its successor 8',
    ]);
  });

  it('of a successor while some of the process before are in execution', () => {
    expect(check(ran(7), ran(8, 2))).toEqual([
      'ps 0 began a run of /job:worker/task:0, incarnation 8, before 2 of the processes before it had ended',
    ]);
  });
});

describe('a new job on empty disks', () => {
  it('begins again', () => {
    expect(check(saved(1, 10), { type: 'wiped' }, saved(9, 1), { type: 'restorable', step: 1 })).toEqual([]);
  });

  it('keeps what was found before', () => {
    expect(check(saved(1, 10), saved(1, 9), { type: 'wiped' })).toHaveLength(1);
    expect(check(step(2, 10), step(2, 5), { type: 'wiped' })).toHaveLength(1);
  });
});

describe('steps', () => {
  it('that go back without a restore', () => {
    expect(check(step(2, 10), { type: 'back', process: 2, from: 10, to: 5 }, step(2, 6))).toEqual([
      'worker 1 went back from step 10 to 5 without a restore',
    ]);
    expect(check(step(2, 10), step(2, 5))).toHaveLength(1);
  });

  it('that go back before the restore is logged', () => {
    expect(check(saved(1, 3), step(2, 10), step(2, 5), restored(1, 4))).toEqual([]);
  });

  it('that go back further than what was restored', () => {
    expect(check(saved(1, 3), step(2, 10), restored(1, 8), step(2, 5))).toHaveLength(1);
  });

  it('that go back long after a restore', () => {
    expect(check(restored(1, 3), { ...step(2, 11), at: 30_000 }, { ...step(2, 5), at: 60_000 })).toHaveLength(
      1,
    );
  });

  it('that go back when a chief dies, which may have restored', () => {
    expect(check(step(2, 10), { type: 'ended', process: 1 }, step(2, 5))).toEqual([]);
  });

  it('that go back when a chief is stopped, which may have restored, but not behind an acknowledged save', () => {
    const stopped = { type: 'stopped', process: 1 } as const;
    expect(check(step(2, 10), stopped, step(2, 5))).toEqual([]);
    expect(check(saved(1, 8), step(2, 10), stopped, step(2, 5))).toHaveLength(1);
  });

  it('but not when it continues: what it logs then is from before', () => {
    const stopped = { type: 'stopped', process: 1 } as const;
    expect(check(stopped, saved(3, 8), restored(1, 4))).toEqual([]);
    expect(check(saved(3, 8), restored(1, 4))).toHaveLength(1);
  });

  it('of a new process that are before what was acknowledged', () => {
    expect(
      check(saved(1, 10), { type: 'started', process: 4, task: 'worker 1' }, step(4, 3), step(4, 20)),
    ).toEqual([
      'the first step of worker 1 was 3, although the save of step 10 was acknowledged before it started',
    ]);
  });
});

describe('records', () => {
  const ledger = { type: 'applied', step: 5, batch: 100, consumed: 500, wrong: [] } as const;

  it('applied once', () => expect(check(ledger)).toEqual([]));

  it('that the ledger does not count', () => {
    expect(check({ ...ledger, consumed: 400 })).toEqual([
      'the ledger of step 5 counts 400 consumed records, 5 steps consume 500',
    ]);
  });

  it('applied twice', () => {
    expect(check({ ...ledger, wrong: ['record 7: 2 times instead of 1'] })).toEqual([
      'in the checkpoint of step 5 1 records were not applied as the ledger says: record 7: 2 times instead of 1',
    ]);
  });
});

describe('log lines', () => {
  it.each([
    ['step 12 of 100 · 7 steps/s · loss 0.1', { type: 'step', step: 12 }],
    ['saved model.ckpt-40 in 0.1 s', { type: 'saved', step: 40 }],
    ['2 variables were lost: restored model.ckpt-40 (1 kB read)', { type: 'restored', step: 40 }],
    ['event {"type":"back","from":3,"to":2}', { type: 'back', from: 3, to: 2 }],
    [
      'the cluster is complete again after 2 s; restored model.ckpt-40 from ps 0; training continues',
      undefined,
    ],
    ['agent at 10.64.0.10:2220', undefined],
  ])('%s', (line, event) => expect(eventIn(line)).toEqual(event));
});
