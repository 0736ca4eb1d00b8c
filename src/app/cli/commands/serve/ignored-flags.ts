/**
 * Flags of `tensorflow_model_server` that have no meaning here: they are accepted, so that its command lines work, and
 * named in one warning.
 */
const value = {
  kind: 'parsed',
  parse: String,
  optional: true,
  hidden: true,
  brief: 'Ignored',
  placeholder: 'value',
} as const;
const toggle = { kind: 'boolean', optional: true, hidden: true, brief: 'Ignored' } as const;

export const IGNORED_FLAGS = {
  enablePerModelBatchingParameters: toggle,
  enableProfiler: toggle,
  enableGrpcHealthcheckService: toggle,
  enableSerializationAsTensorContent: toggle,
  flushFilesystemCaches: toggle,
  grpcChannelArguments: value,
  grpcMaxThreads: value,
  grpcSocketPath: value,
  loadRetryIntervalMicros: value,
  maxNumLoadRetries: value,
  mixedPrecision: value,
  numLoadThreads: value,
  numTfliteInterpretersPerPool: value,
  numTflitePools: value,
  numUnloadThreads: value,
  platformConfigFile: value,
  preferTfliteModel: toggle,
  removeUnusedFieldsFromBundleMetagraph: toggle,
  restApiNumThreads: value,
  skipInitializeTpu: toggle,
  tensorflowSessionConfigFile: value,
  threadPoolFactoryConfigFile: value,
  xlaCpuCompilationEnabled: toggle,
  xlaGpuCompilationEnabled: toggle,
} as const;

/** The ignored flags that were given, as they are written. */
export const ignoredOf = (flags: Readonly<Record<string, unknown>>): readonly string[] =>
  Object.keys(IGNORED_FLAGS)
    .filter((name) => flags[name] !== undefined)
    .map((name) => `--${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`);
