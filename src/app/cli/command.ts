/** Declares a command whose usage line names its required flags and, as `[flags]`, the others. */
import {
  type BaseArgs,
  buildCommand,
  type Command,
  type CommandBuilderArguments,
  type CommandContext,
} from '@stricli/core';

interface Flag {
  readonly kind: string;
  readonly optional?: boolean;
  readonly default?: unknown;
  readonly placeholder?: string;
}

interface Positional {
  readonly placeholder?: string;
  readonly optional?: boolean;
}

export function command<
  const F extends Readonly<Partial<Record<keyof F, unknown>>> = NonNullable<unknown>,
  const A extends BaseArgs = [],
  const C extends CommandContext = CommandContext,
>(parts: CommandBuilderArguments<F, A, C> & { readonly rest?: boolean }): Command<C> {
  const usage = usageOf(parts.parameters, parts.rest ?? false);
  const built = buildCommand<F, A, C>({ ...parts, docs: { ...parts.docs, customUsage: [usage] } });
  return { ...built, formatUsageLine: ({ prefix }) => [...prefix, usage].join(' ') };
}

function usageOf(parameters: object, takesRest: boolean): string {
  const { flags = {}, positional } = parameters as {
    readonly flags?: Readonly<Record<string, Flag>>;
    readonly positional?: { readonly parameters?: readonly Positional[] };
  };
  const all = Object.entries(flags);
  const required = all.filter(([, flag]) => !flag.optional && flag.default === undefined);
  return [
    ...required.map(([name, { placeholder = 'value' }]) => `--${name} ${placeholder}`),
    ...(all.length > required.length ? ['[flags]'] : []),
    ...(positional?.parameters ?? []).map(({ placeholder = 'value', optional }) =>
      optional ? `[<${placeholder}>]` : `<${placeholder}>`,
    ),
    ...(takesRest ? ['[-- args]'] : []),
  ].join(' ');
}
