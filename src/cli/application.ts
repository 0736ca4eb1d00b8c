/** The tree of commands. Each is declared in a file of its own and its code is loaded when it runs. */
import { readFileSync } from 'node:fs';
import { buildApplication, buildRouteMap, text_en } from '@stricli/core';
import { isShoalError } from '../errors/errors.js';
import { doctorCommand } from './commands/doctor.js';
import { setupCommand } from './commands/setup.js';
import { describeFailure } from './failure.js';

const packageFile = new URL('../../package.json', import.meta.url);

/** As a shell shows a program that Ctrl-C ended. */
const INTERRUPTED_EXIT_CODE = 130;

const routes = buildRouteMap({
  routes: { doctor: doctorCommand, setup: setupCommand },
  docs: { brief: 'Distributed TensorFlow training in TypeScript, on machines that share no disk.' },
});

export const application = buildApplication(routes, {
  name: 'shoal',
  versionInfo: {
    getCurrentVersion: async () => JSON.parse(readFileSync(packageFile, 'utf8')).version as string,
  },
  scanner: { caseStyle: 'allow-kebab-for-camel' },
  documentation: { caseStyle: 'convert-camel-to-kebab' },
  localization: {
    text: {
      ...text_en,
      exceptionWhileRunningCommand: describeFailure,
      commandErrorResult: describeFailure,
    },
  },
  determineExitCode: (error) => (isShoalError(error, 'SHOAL_ABORTED') ? INTERRUPTED_EXIT_CODE : 1),
});
