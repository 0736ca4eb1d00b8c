import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { described } from '../../../../test/described.js';
import { type ClusterConfig, resolveConfig } from './config.js';
import { describeConfig } from './config-describe.js';
import { findJsonMistake } from './json-position.js';

const flags = ['--ps_hosts=a:1,b:2', '--worker_hosts', 'c:1, d:2', '--job_name', 'worker', '--task_index=1'];
const tfConfig = (value: unknown) => ({ TF_CONFIG: JSON.stringify(value) });

function cluster(...args: Parameters<typeof resolveConfig>): ClusterConfig {
  const config = resolveConfig(...args);
  if (config.mode !== 'cluster') throw new Error('expected a cluster');
  return config;
}

describe('resolveConfig', () => {
  it('reads the classic flags, in both spellings, and leaves the other arguments alone', () => {
    const config = cluster({ argv: [...flags, '--batch', '3', '--', '--job_name=x'] });
    expect(config.task).toBe('/job:worker/task:1');
    expect(config.spec.asDict()).toEqual({ ps: ['a:1', 'b:2'], worker: ['c:1', 'd:2'] });
    expect(config.isChief).toBe(false);
    expect(config.rest).toEqual(['--batch', '3', '--', '--job_name=x']);
  });

  it('reads TF_CONFIG with a chief, a sparse job and a string index', () => {
    const env = tfConfig({
      cluster: { chief: ['a:1'], worker: { 2: 'b:1' }, ps: ['c:1'] },
      task: { type: 'worker', index: '2' },
      environment: 'cloud',
    });
    const config = cluster({ env });
    expect(config.task).toBe('/job:worker/task:2');
    expect(config.index).toEqual({ value: 2, from: 'TF_CONFIG.task.index' });
    expect(config.spec.chief).toBe('/job:chief/task:0');
  });

  it('accepts the old name master for chief', () => {
    const env = tfConfig({
      cluster: { master: ['a:1'], worker: ['b:1'] },
      task: { type: 'master', index: 0 },
    });
    expect(cluster({ env })).toMatchObject({ task: '/job:chief/task:0', isChief: true });
  });

  it('accepts an evaluator that the cluster does not list', () => {
    const env = tfConfig({
      cluster: { ps: ['a:1'], worker: ['b:1'] },
      task: { type: 'evaluator', index: 0 },
    });
    expect(cluster({ env })).toMatchObject({ task: '/job:evaluator/task:0', isChief: false });
  });

  it('accepts an elastic worker beyond the cluster, and chooses an index if there is none', () => {
    const hosts = flags.slice(0, 3);
    expect(cluster({ argv: [...hosts, '--elastic', '--task_index=5'] })).toMatchObject({
      task: '/job:worker/task:5',
      isChief: false,
    });
    const [lowest, highest] = [0, 0.999999].map(
      (value) => cluster({ argv: [...hosts, '--elastic'], random: () => value }).index.value,
    );
    expect([lowest, highest]).toEqual([2, 1_000_001]);
  });

  it('is local when no cluster is configured', () => {
    expect(resolveConfig({ argv: ['x'] })).toMatchObject({ mode: 'local', rest: ['x'] });
  });

  it('puts flags over environment over file, value by value', () => {
    const file = JSON.stringify({
      cluster: { ps: ['f:1'], worker: ['f:2'], evaluator: ['f:3'] },
      task: { type: 'ps', index: 0 },
      dead_after_ms: 7000,
      tf_port: 9,
    });
    const config = cluster({
      argv: ['--config', 'shoal.json', '--ps_hosts=flag:1'],
      env: { ...tfConfig({ cluster: { ps: ['e:1'], worker: ['e:2'] } }), SHOAL_TF_PORT: '8' },
      readFile: (path) => (path === 'shoal.json' ? file : ''),
    });
    expect(config.spec.asDict()).toEqual({ ps: ['flag:1'], worker: ['e:2'], evaluator: ['f:3'] });
    expect(Object.fromEntries(Object.entries(config.jobs).map(([job, { from }]) => [job, from]))).toEqual({
      ps: '--ps_hosts',
      worker: 'TF_CONFIG.cluster.worker',
      evaluator: 'shoal.json.cluster.evaluator',
    });
    expect(config.tfPort).toEqual({ value: 8, from: 'SHOAL_TF_PORT' });
    expect(config.deadAfterMs).toEqual({ value: 7000, from: 'shoal.json.dead_after_ms' });
    expect(config.heartbeatMs).toEqual({ value: 500, from: 'default' });
  });

  it('reads a token from a file', () => {
    const config = resolveConfig({ argv: ['--cluster_token_file=t'], readFile: () => 'secret\n' });
    expect(config.clusterToken).toEqual({ value: 'secret', from: '--cluster_token_file (t)' });
  });

  it.each([
    ['a bad address', ['--ps_hosts=a:1,b', ...flags.slice(1)], /^--ps_hosts\[1\]: "b".*no port/],
    [
      'an index out of range',
      [...flags, '--task_index=2'],
      /^--task_index: 2 is out of range for job worker\n.*0, 1/,
    ],
    ['an unknown job', [...flags, '--job_name=pss'], /^--job_name: unknown job "pss"/],
    ['a job that the cluster lacks', [...flags, '--job_name=chief'], /^--job_name: unknown job "chief"/],
    [
      'an elastic worker that is listed',
      [...flags, '--elastic'],
      /^--task_index: the cluster lists worker 1/,
    ],
    ['an elastic ps', [...flags, '--job_name=ps', '--elastic'], /^--job_name: ps cannot be elastic/],
    ['no task', flags.slice(0, 3), /not which task/],
    ['no index', flags.slice(0, 5), /no task index/],
    ['a task without a cluster', ['--job_name=ps'], /no cluster is configured/],
    ['an index that is not a number', [...flags, '--task_index=one'], /^--task_index: expected an integer/],
    ['a flag without value', [...flags, '--task_index'], /^argument 7: --task_index has no value/],
    ['a flag whose value is a flag', ['--ps_hosts', '--job_name=ps'], /--ps_hosts has no value/],
    ['too short a timeout', [...flags, '--dead_after_ms=600'], /^--dead_after_ms: 600 ms is too short/],
    ['an empty list', ['--ps_hosts=', ...flags.slice(1)], /^--ps_hosts: the job is empty/],
    ['two chiefs', [...flags, '--chief_hosts=x:1,y:1'], /^--chief_hosts\[1\]: there are two chiefs/],
    ['a duplicate address', [...flags, '--chief_hosts=a:1'], /a:1 is already used by/],
    ['a missing file', ['--config=nowhere.json'], /^--config: cannot read nowhere.json/],
  ])('rejects %s and reports the location', (_, argv, message) => {
    expect(() => resolveConfig({ argv })).toThrow(described(message));
  });

  it.each([
    [
      '{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps" "index": 0}}',
      /^TF_CONFIG is not JSON: expected a comma or } at position 51 \(line 1, column 52\)/,
    ],
    ['{"cluster": ', /expected a value at position 12/],
    ['{"cluster": {"ps": "a:1"}}', /^TF_CONFIG\.cluster\.ps: expected a list of addresses/],
    ['{"cluster": {"ps": ["a:1"]}, "task": {"type": 3}}', /^TF_CONFIG\.task\.type: /],
    ['{"cluster": {"pss": ["a:1"]}, "task": {"type": "pss"}}', /^TF_CONFIG\.cluster\.pss: unknown job/],
    [
      '{"cluster": {"chief": ["a:1"], "master": ["b:1"]}}',
      /^TF_CONFIG\.cluster\.master: there are two chiefs/,
    ],
    ['[]', /^TF_CONFIG: expected an object/],
  ])('refuses TF_CONFIG %s', (text, message) => {
    expect(() => resolveConfig({ env: { TF_CONFIG: text } })).toThrow(described(message));
  });

  it('refuses an unknown key in a config file', () => {
    expect(() => resolveConfig({ file: 'f', readFile: () => '{"clutser": {}}' })).toThrow(/^f\.clutser/);
  });
});

describe('describeConfig', () => {
  const config = resolveConfig({ argv: flags, env: { SHOAL_CLUSTER_TOKEN: 'hunter2' } });

  it('prints each value with its source and no secret', () => {
    const text = describeConfig(config);
    expect(text).toMatch(/^cluster\.ps +a:1, b:2 +--ps_hosts$/m);
    expect(text).toMatch(/^task +\/job:worker\/task:1 +derived$/m);
    expect(text).toMatch(/^cluster_token +\(set\) +SHOAL_CLUSTER_TOKEN$/m);
    expect(text).not.toContain('hunter2');
  });

  it('prints the same as JSON', () => {
    const parsed = JSON.parse(describeConfig(config, { json: true }));
    expect(parsed['cluster.worker']).toEqual({ value: ['c:1', 'd:2'], from: '--worker_hosts' });
    expect(JSON.stringify(parsed)).not.toContain('hunter2');
  });
});

describe('findJsonMistake', () => {
  it('agrees with JSON.parse on any damaged JSON', () => {
    const damaged = fc.tuple(
      fc.json(),
      fc.nat(),
      fc.constantFrom('', '"', ',', '}', ']', 'x', '\\', '\n', '0'),
    );
    fc.assert(
      fc.property(damaged, ([text, where, insert]) => {
        const at = where % (text.length + 1);
        const changed = text.slice(0, at) + insert + text.slice(insert === '' ? at + 1 : at);
        let valid = true;
        try {
          JSON.parse(changed);
        } catch {
          valid = false;
        }
        expect(findJsonMistake(changed) === undefined).toBe(valid);
      }),
      { numRuns: 2000 },
    );
  });

  it('reports line and column', () => {
    expect(findJsonMistake('{\n  "a": 1,\n  b\n}')).toMatchObject({
      line: 3,
      column: 3,
      expected: 'a key in double quotes',
    });
  });
});
