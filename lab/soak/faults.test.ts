import { describe, expect, it } from 'vitest';
import { type Burst, burstsBetween } from './bursts.js';
import { describeFault, type Fault, mayOverlap } from './faults.js';
import { KINDS } from './make-fault.js';

const faultsOf = (bursts: readonly Burst[]) => bursts.flatMap(({ faults }) => faults);

describe('the faults of a soak', () => {
  it('are a function of the seed, and do not depend on their number', () => {
    const all = burstsBetween(7, 1, 300);
    expect(burstsBetween(7, 1, 300)).toEqual(all);
    expect(all.slice(0, 10)).toEqual(burstsBetween(7, 1, 300).slice(0, 10));
    expect(burstsBetween(8, 1, 300)).not.toEqual(all);
  });

  it('are numbered from 1 without gaps', () => {
    const numbers = faultsOf(burstsBetween(3, 1, 100)).map(({ number }) => number);
    expect(numbers).toEqual(numbers.map((_, i) => i + 1));
    expect(numbers.length).toBeGreaterThanOrEqual(100);
  });

  it('can be replayed from a number on: the burst with that fault is complete', () => {
    const all = burstsBetween(5, 1, 60);
    const some = burstsBetween(5, 30, 60);
    expect(some).toEqual(all.slice(-some.length));
    expect(some[0]?.faults.some(({ number }) => number === 30)).toBe(true);
  });

  it('include every kind, with one to three in a burst', () => {
    const bursts = burstsBetween(1, 1, 1000);
    const kinds = faultsOf(bursts).map(({ fault }) => fault.kind);
    for (const kind of KINDS) expect(kinds.filter((one) => one === kind).length, kind).toBeGreaterThan(20);
    expect(new Set(bursts.map(({ faults }) => faults.length))).toEqual(new Set([1, 2, 3]));
  });

  it('can be limited to some kinds', () => {
    const kinds = faultsOf(burstsBetween(6, 1, 50, ['cut', 'block'])).map(({ fault }) => fault.kind);
    expect(new Set(kinds)).toEqual(new Set(['cut', 'block']));
  });

  it('replace tasks at every moment: any, of a start, a step, a save and a restore', () => {
    const texts = faultsOf(burstsBetween(9, 1, 1000)).map(({ fault }) => describeFault(fault));
    for (const moment of [
      'stop ps 0, replace',
      'stop worker 1, launched again, at lab.run#',
      'stop ps 1, launched again, at lab.stage#',
      'stop worker 0 at lab.run,',
      'stop ps 0 at lab.stage,',
      'stop worker 0 at checkpoint.manifest',
      'stop ps 1 at checkpoint.write',
      'stop ps 0, launched again, at checkpoint.restore',
      'stop worker 1 while ps 0 is at checkpoint.restore',
      'a new job on empty disks: stop worker 0 at lab.initialize',
    ])
      expect(texts).toContainEqual(expect.stringContaining(moment));
  });

  it('are bounded in time', () => {
    for (const { fault } of faultsOf(burstsBetween(10, 1, 1000))) {
      const waits = fault.kind === 'cut' ? fault.times * fault.gapMs : 'ms' in fault ? fault.ms : 0;
      expect(waits).toBeLessThanOrEqual(15_000);
    }
  });

  it('destroy at most one disk in a burst', () => {
    const destroyed = ({ fault }: { fault: Fault }) =>
      fault.kind === 'replace' || fault.kind === 'new-job' || ('place' in fault && fault.place !== 'same');
    for (const { faults } of burstsBetween(2, 1, 1000))
      expect(faults.filter(destroyed).length).toBeLessThanOrEqual(1);
  });

  it('do not overlap on one task', () => {
    const freeze: Fault = { kind: 'freeze', task: 'ps 0', ms: 100 };
    const kill: Fault = { kind: 'kill', victims: ['ps 0'], place: 'same', downMs: 0 };
    expect(mayOverlap(freeze, kill)).toBe(false);
    expect(mayOverlap(freeze, { ...kill, victims: ['ps 1'] })).toBe(true);
    expect(mayOverlap(freeze, { ...kill, victims: ['ps 1'], place: 'moved' })).toBe(false);
  });

  it('are described in a line each', () => {
    const texts = faultsOf(burstsBetween(4, 1, 200)).map(({ fault }) => describeFault(fault));
    expect(texts.filter((text) => /undefined|NaN/.test(text))).toEqual([]);
    expect(texts).toContainEqual(expect.stringMatching(/^kill (ps|worker) \d/));
  });
});
