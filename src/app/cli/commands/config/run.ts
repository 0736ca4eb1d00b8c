/** `shoal config`: prints the configuration. */
import type { CommandContext } from '@stricli/core';
import { resolveConfig } from '../../../../distributed/cluster/spec/config.js';
import { describeConfig } from '../../../../distributed/cluster/spec/config-describe.js';
import { taskArguments } from '../../task-flags.js';
import type { ConfigFlags } from './command.js';

export function runConfig(this: CommandContext, flags: ConfigFlags): void {
  const config = resolveConfig({ argv: taskArguments(flags), env: process.env });
  this.process.stdout.write(`${describeConfig(config, { json: flags.json })}\n`);
}
