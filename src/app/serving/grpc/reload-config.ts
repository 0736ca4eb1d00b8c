/** The configuration of a model, from its message. */
import type { ModelConfig as ModelConfigMessage } from '../../../base/proto/generated/serving_pb.js';
import { LATEST, type ModelConfig, type VersionPolicy } from '../config/model-config.js';

export function modelConfigOf(message: ModelConfigMessage): ModelConfig {
  const { name, basePath, modelPlatform, versionLabels } = message;
  const labels = Object.entries(versionLabels).map(([label, version]) => [label, Number(version)] as const);
  return {
    name,
    basePath,
    policy: policyOf(message),
    labels: Object.fromEntries(labels),
    ...(modelPlatform !== '' && { platform: modelPlatform }),
  };
}

function policyOf({ modelVersionPolicy }: ModelConfigMessage): VersionPolicy {
  const choice = modelVersionPolicy?.policyChoice;
  switch (choice?.case) {
    case 'all':
      return { kind: 'all' };
    case 'specific':
      return { kind: 'specific', versions: choice.value.versions.map(Number) };
    case 'latest':
      // TensorFlow Serving reads 0 as the default.
      return { kind: 'latest', count: choice.value.numVersions || 1 };
    default:
      return LATEST;
  }
}
