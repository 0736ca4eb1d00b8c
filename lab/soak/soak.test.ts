import { expect, it } from 'vitest';
import { loadExperiment, type Report, runExperiment } from '../experiment.js';
import { probe } from '../hosts/namespace-support.js';

const canIsolate = (await probe()).kind === 'namespaces';

/** Only detects hangs: each fault may take minutes on a busy machine. */
const LONG = { timeout: 900_000 };

it.runIf(canIsolate)('a short soak recovers from every fault', LONG, async () => {
  const reports: Report[] = [];
  const flags = { faults: '3', seed: '25', job: 'leased' };
  await runExperiment(await loadExperiment('soak'), { flags, report: (report) => reports.push(report) });
  const checks = reports.filter((report) => report.type === 'check');
  expect(checks.filter(({ held }) => !held)).toEqual([]);
  expect(checks.filter(({ name }) => name.startsWith('fault ')).length).toBeGreaterThanOrEqual(3);
});
