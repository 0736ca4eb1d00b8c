import { describe, expect, it } from 'vitest';
import { formatAddress, isLoopback, parseAddress } from './address.js';
import { ClusterSpec, TRAINING_JOBS } from './cluster-spec.js';
import { compareTasks, parseTaskId, taskId } from './task-id.js';

const two = { ps: ['a:1', 'b:2'], worker: ['c:1', 'd:2', 'e:3'] };

describe('ClusterSpec', () => {
  it('returns jobs, indices and addresses as TensorFlow does', () => {
    const spec = new ClusterSpec(two);
    expect(spec.jobs).toEqual(['ps', 'worker']);
    expect(spec.numTasks('worker')).toBe(3);
    expect(spec.taskAddress('ps', 1)).toBe('b:2');
    expect(spec.jobTasks('ps')).toEqual(['a:1', 'b:2']);
    expect(spec.addressOf(taskId('worker', 2))).toBe('e:3');
    expect(spec.tasks.map(({ id }) => id)).toContain('/job:ps/task:1');
  });

  it('keeps the gaps of a sparse job', () => {
    const spec = new ClusterSpec({ worker: { 3: 'c:1', 0: 'a:1' } });
    expect(spec.taskIndices('worker')).toEqual([0, 3]);
    expect(spec.jobTasks('worker')).toEqual(['a:1', undefined, undefined, 'c:1']);
    expect(spec.asDict()).toEqual({ worker: { 0: 'a:1', 3: 'c:1' } });
    expect(new ClusterSpec(spec.asDict()).equals(spec)).toBe(true);
  });

  it('has the chief job as its chief, or worker 0 without one', () => {
    expect(new ClusterSpec(two).chief).toBe('/job:worker/task:0');
    const led = new ClusterSpec({ ...two, chief: ['x:1'] });
    expect(led.chief).toBe('/job:chief/task:0');
    expect(led.isChief(taskId('worker', 0))).toBe(false);
  });

  it.each([
    ['a missing port', { ps: ['a:1', 'b'] }, /^cluster\.ps\[1\]: "b" is not an address: it has no port/],
    ['an empty port', { ps: ['a:'] }, /^cluster\.ps\[0\].*no port/],
    ['port zero', { ps: ['a:0'] }, /^cluster\.ps\[0\].*"0" is not a valid port/],
    ['a port too large', { ps: ['a:65536'] }, /^cluster\.ps\[0\].*"65536" is not a valid port/],
    ['no host', { ps: [':1'] }, /^cluster\.ps\[0\].*no host/],
    ['a bare IPv6 host', { ps: ['::1'] }, /^cluster\.ps\[0\].*brackets/],
    ['a wrong IPv4 host', { ps: ['1.2.3.999:1'] }, /^cluster\.ps\[0\].*not a host name/],
    ['a scheme', { ps: ['http://a:1'] }, /^cluster\.ps\[0\]/],
    [
      'a duplicate address',
      { ps: ['a:1'], worker: ['b:1', 'A:1'] },
      /^cluster\.worker\[1\].*cluster\.ps\[0\]/,
    ],
    ['an empty job', { ps: [] }, /^cluster\.ps: the job is empty/],
    ['an empty sparse job', { ps: {} }, /^cluster\.ps: the job is empty/],
    ['two chiefs', { chief: ['a:1', 'b:1'] }, /^cluster\.chief\[1\]: there are two chiefs/],
    ['a wrong index', { ps: { one: 'a:1' } }, /^cluster\.ps\["one"\].*not a task index/],
    ['a wrong job name', { 'p s': ['a:1'] }, /not a valid job name/],
  ])('rejects %s and reports the location', (_, cluster, message) => {
    expect(() => new ClusterSpec(cluster as never)).toThrow(message);
    expect(() => new ClusterSpec(cluster as never)).toThrow(
      expect.objectContaining({ code: 'SHOAL_CONFIG' }),
    );
  });

  it('refuses a job that is not in knownJobs', () => {
    expect(() => new ClusterSpec({ pss: ['a:1'] }, { knownJobs: TRAINING_JOBS })).toThrow(
      expect.objectContaining({
        message: 'cluster.pss: unknown job "pss"',
        hint: expect.stringContaining('the jobs are chief, worker, ps, evaluator'),
      }),
    );
  });

  it('refuses to look up an unknown job or task', () => {
    const spec = new ClusterSpec(two);
    expect(() => spec.taskAddress('ps', 2)).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(/index 2 is out of range$/),
        hint: 'job ps has the tasks 0, 1',
      }),
    );
    expect(() => spec.numTasks('chief')).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(/no job "chief"$/),
        hint: 'the jobs are ps, worker',
      }),
    );
  });
});

describe('addresses', () => {
  it('reads IPv6 in brackets and writes it back', () => {
    expect(parseAddress('[::1]:80')).toEqual({ host: '::1', port: 80 });
    expect(formatAddress({ host: 'fe80::1', port: 9 })).toBe('[fe80::1]:9');
  });

  it('knows loopback', () => {
    expect(['localhost', '127.0.0.1', '127.9.9.9', '::1'].every(isLoopback)).toBe(true);
    expect(['0.0.0.0', '10.0.0.1', 'example.org', '::', '127.evil.org'].some(isLoopback)).toBe(false);
  });
});

describe('task ids', () => {
  it('survive a round trip', () => {
    expect(parseTaskId(taskId('ps', 12))).toEqual({ job: 'ps', index: 12 });
  });

  it('sort by number, not by text', () => {
    const ids = [taskId('worker', 10), taskId('ps', 1), taskId('worker', 9)];
    expect(ids.sort(compareTasks)).toEqual(['/job:ps/task:1', '/job:worker/task:9', '/job:worker/task:10']);
  });

  it.each(['/job:ps', '/job:ps/task:01', '/job:ps/task:-1', '/job:ps/task:1\n', 'ps:1'])(
    'refuses %j',
    (text) => {
      expect(() => parseTaskId(text)).toThrow(/not a task/);
    },
  );
});
