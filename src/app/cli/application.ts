/** The command tree. Each command is declared in its own file; its implementation is loaded when it runs. */
import { type Application, buildApplication, buildRouteMap, text_en } from '@stricli/core';
import { packageVersion } from '../../base/files/package.js';
import { certsCommands } from './commands/certs/command.js';
import { checkpointCommands } from './commands/checkpoint/command.js';
import { completeCommand, completionCommand } from './commands/completion/command.js';
import { configCommand } from './commands/config/command.js';
import { doctorCommand } from './commands/doctor/command.js';
import { exportCommand } from './commands/export/command.js';
import { initCommand } from './commands/init/command.js';
import { pageCommand } from './commands/page/command.js';
import { publishCommand } from './commands/publish/command.js';
import { runCommand } from './commands/run/command.js';
import { predictCommand, savedModelCommands } from './commands/saved-model/command.js';
import { serveCommand } from './commands/serve/command.js';
import { setupCommand } from './commands/setup/command.js';
import { statusCommand } from './commands/status/command.js';
import { sweepCommand } from './commands/sweep/command.js';
import { taskCommand } from './commands/task/command.js';
import { traceCommand } from './commands/trace/command.js';
import { asWritten, type ShoalContext } from './context.js';
import { describeFailure, describeFailureAsJson, exitCodeOfFailure, UsageError } from './failure.js';

const routes = buildRouteMap<string, ShoalContext>({
  routes: {
    init: initCommand,
    run: runCommand,
    sweep: sweepCommand,
    task: taskCommand,
    status: statusCommand,
    page: pageCommand,
    trace: traceCommand,
    checkpoint: checkpointCommands,
    export: exportCommand,
    savedModel: savedModelCommands,
    predict: predictCommand,
    serve: serveCommand,
    publish: publishCommand,
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
      '  shoal init my-model                     create a project with a job\n' +
      '  shoal run job.ts                        run a job in one process\n' +
      '  shoal run job.ts --ps 2 --workers 3     run it as a cluster on this machine\n' +
      '  shoal sweep job.ts --set rate=0.01,0.1  run it with several values of a parameter\n' +
      '  shoal status --watch                    watch that cluster\n' +
      '  shoal page                              show where the page of that cluster is\n' +
      '  shoal trace --steps 20                   record what its tasks do, for Perfetto\n' +
      '  shoal checkpoint ls                     list its checkpoints and where they are\n' +
      '  shoal export job.ts --out export/1      export a checkpoint as a SavedModel, for serving\n' +
      '  shoal serve export                      serve its versions to clients of TensorFlow Serving\n' +
      '  shoal publish export --to host:8502      publish the newest version to serving machines\n' +
      '  shoal help COMMAND                      show the flags of a command\n' +
      '\n' +
      'Flags may also be written with _, as in TensorFlow 1: --ps_hosts is the same as --ps-hosts.',
    hideRoute: { complete: true },
  },
});

function createApplication({ json }: { readonly json: boolean }): Application<ShoalContext> {
  const describe = json ? describeFailureAsJson : describeFailure;
  const describeMisuse = (message: string) => describe(new UsageError('SHOAL_INVALID_ARGUMENT', message));
  return buildApplication(routes, {
    name: 'shoal',
    versionInfo: {
      getCurrentVersion: async () => packageVersion(),
    },
    scanner: {
      caseStyle: 'allow-kebab-for-camel',
      // The default of 7 suggests words that have nothing in common with the input.
      distanceOptions: {
        threshold: 3,
        weights: { insertion: 1, deletion: 3, substitution: 2, transposition: 0 },
      },
    },
    documentation: {
      caseStyle: 'convert-camel-to-kebab',
      onlyRequiredInUsageLine: true,
      disableAnsiColor: json,
    },
    localization: {
      text: {
        ...text_en,
        noCommandRegisteredForInput: (given) => describeMisuse(text_en.noCommandRegisteredForInput(given)),
        exceptionWhileParsingArguments: (error, ansiColor) =>
          describeMisuse(asWritten(text_en.exceptionWhileParsingArguments(error, ansiColor))),
        exceptionWhileRunningCommand: describe,
        exceptionWhileLoadingCommandFunction: describe,
        commandErrorResult: describe,
      },
    },
    determineExitCode: exitCodeOfFailure,
  });
}

export const application = createApplication({ json: false });
/** Prints errors as JSON. */
export const jsonApplication = createApplication({ json: true });
