/** The tree of commands. Each is declared in a file of its own and its code is loaded when it runs. */
import { readFileSync } from 'node:fs';
import { buildApplication, buildRouteMap, text_en } from '@stricli/core';
import { certsCommands } from './commands/certs/command.js';
import { checkpointCommands } from './commands/checkpoint/command.js';
import { completeCommand, completionCommand } from './commands/completion/command.js';
import { configCommand } from './commands/config/command.js';
import { doctorCommand } from './commands/doctor/command.js';
import { exportCommand } from './commands/export/command.js';
import { runCommand } from './commands/run/command.js';
import { predictCommand, savedModelCommands } from './commands/saved-model/command.js';
import { setupCommand } from './commands/setup/command.js';
import { statusCommand } from './commands/status/command.js';
import { taskCommand } from './commands/task/command.js';
import type { ShoalContext } from './context.js';
import { describeFailure, exitCodeOfFailure } from './failure.js';

const packageFile = new URL('../../package.json', import.meta.url);

const routes = buildRouteMap<string, ShoalContext>({
  routes: {
    run: runCommand,
    task: taskCommand,
    status: statusCommand,
    checkpoint: checkpointCommands,
    export: exportCommand,
    savedModel: savedModelCommands,
    predict: predictCommand,
    config: configCommand,
    certs: certsCommands,
    doctor: doctorCommand,
    setup: setupCommand,
    completion: completionCommand,
    complete: completeCommand,
  },
  docs: {
    brief: 'Distributed TensorFlow training in TypeScript, on machines that share no disk.',
    fullDescription:
      'Distributed TensorFlow training in TypeScript, on machines that share no disk.\n\n' +
      'Examples:\n' +
      '  shoal run job.ts                        in one process\n' +
      '  shoal run job.ts --ps 2 --workers 3     as a cluster on this machine\n' +
      '  shoal status --watch                    what that cluster does\n' +
      '  shoal checkpoint ls                     what it has saved, and where\n' +
      '  shoal export job.ts --out export/1      a checkpoint as a SavedModel, for serving\n' +
      '  shoal COMMAND --help                    what a command takes',
    hideRoute: { complete: true },
  },
});

export const application = buildApplication(routes, {
  name: 'shoal',
  versionInfo: {
    getCurrentVersion: async () => JSON.parse(readFileSync(packageFile, 'utf8')).version as string,
  },
  scanner: { caseStyle: 'allow-kebab-for-camel' },
  documentation: { caseStyle: 'convert-camel-to-kebab', onlyRequiredInUsageLine: true },
  localization: {
    text: {
      ...text_en,
      exceptionWhileRunningCommand: describeFailure,
      exceptionWhileLoadingCommandFunction: describeFailure,
      commandErrorResult: describeFailure,
    },
  },
  determineExitCode: exitCodeOfFailure,
});
