/** The last save of sessions and supervisors while a disk is full. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { Scaffold } from '../core/scaffold.js';
import { JsonSaver } from '../testing/json-saver.js';
import { smallModel } from '../testing/small-model.js';
import { Workspace } from '../testing/workspace.js';
import { MonitoredTrainingSession } from './monitored-training-session.js';
import { Supervisor } from './supervisor.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.make();
});
afterAll(() => space[Symbol.asyncDispose]());

class FullDiskSaver extends JsonSaver {
  override async save(): Promise<never> {
    throw new ShoalError('SHOAL_NO_SPACE', 'the disk is full');
  }
}

/** The log lines of training whose saves fail. */
async function failingSaves(kind: 'session' | 'supervisor', lastSaveSecs: number): Promise<string> {
  const model = smallModel();
  const { graph } = model;
  const saver = new FullDiskSaver(graph);
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const directory = space.path();
  const training =
    kind === 'session'
      ? MonitoredTrainingSession(
          { graph, checkpointDir: directory, scaffold: new Scaffold({ saver }), lastSaveSecs, log },
          async (session) => void (await session.run(model.trainOp)),
        )
      : new Supervisor({ graph, logdir: directory, saver, lastSaveSecs, log }).managedSession(
          undefined,
          async (session) => void (await session.run(model.trainOp)),
        );
  await expect(training).rejects.toMatchObject({ code: 'SHOAL_NO_SPACE' });
  return lines.join('\n');
}

test.each(['session', 'supervisor'] as const)(
  'of a %s is tried again as long as asked for',
  {
    timeout: 120_000,
  },
  async (kind) => {
    expect(await failingSaves(kind, 0)).toMatch(/the last checkpoint.* could not be saved/);
    expect(await failingSaves(kind, 0)).not.toContain('is not saved yet');
    expect(await failingSaves(kind, 8)).toMatch(
      /is not saved yet.*free disk space;[\s\S]*could not be saved/,
    );
  },
);
