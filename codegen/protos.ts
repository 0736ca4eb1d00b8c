/**
 * Generates src/base/proto/generated: the messages of TensorFlow and TensorFlow Serving, and of gRPC's health and reflection
 * services, as TypeScript, by protobuf-es.
 *
 * The descriptors come from packages of an installed Python (SHOAL_ORACLE_PYTHON); protoc-gen-es is run as protoc would
 * run it. Only messages, enums and services are included, without comments.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { clone, create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  CodeGeneratorRequestSchema,
  CodeGeneratorResponseSchema,
  type DescriptorProto,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from '@bufbuild/protobuf/wkt';
import type { GeneratedFolder } from './output.js';

/**
 * The proto files of TensorFlow, grouped by their use. Loading a module costs far more than parsing its descriptor, so
 * each group becomes one file; a group may import only groups above it. Files that are imported but not named here join
 * the first group that needs them.
 */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  graph: framework(
    'types tensor_shape tensor attr_value node_def op_def function graph versions full_type resource_handle',
    'variable tensor_slice',
  ),
  config: [
    ...framework('step_stats cost_graph device_attributes'),
    ...protobuf('cluster config device_filters rewriter_config tensorflow_server'),
  ],
  model: protobuf(
    'meta_graph saved_model saved_object_graph saver struct trackable_object_graph fingerprint',
    'control_flow queue_runner named_tensor',
  ),
  checkpoint: [...protobuf('tensor_bundle'), 'tensorflow/python/training/checkpoint_state.proto'],
  example: ['tensorflow/core/example/feature.proto', 'tensorflow/core/example/example.proto'],
  event: [...framework('summary'), 'xla/tsl/protobuf/histogram.proto', 'tensorflow/core/util/event.proto'],
  serving: [
    ...serving('apis', 'prediction_service model_service prediction_log'),
    ...serving('config', 'model_server_config'),
  ],
  health: ['grpc_health/v1/health.proto'],
  reflection: ['grpc_reflection/v1alpha/reflection.proto'],
};

/** Packages that are generated a second time under another name; gRPC's reflection v1 is v1alpha renamed. */
const RENAMED: Readonly<Record<string, string>> = { 'grpc.reflection.v1alpha': 'grpc.reflection.v1' };

function framework(...names: string[]): string[] {
  return names.flatMap((line) => line.split(' ')).map((name) => `tensorflow/core/framework/${name}.proto`);
}

function protobuf(...names: string[]): string[] {
  return names.flatMap((line) => line.split(' ')).map((name) => `tensorflow/core/protobuf/${name}.proto`);
}

function serving(directory: string, names: string): string[] {
  return names.split(' ').map((name) => `tensorflow_serving/${directory}/${name}.proto`);
}

const isWellKnown = (name: string) => name.startsWith('google/protobuf/');

const MAX_OUTPUT = 64 << 20;

function run(command: string, args: readonly string[], input?: Uint8Array): Buffer {
  const result = spawnSync(command, args, { input, maxBuffer: MAX_OUTPUT });
  if (result.error) throw new Error(`${command} did not start: ${result.error.message}`);
  if (result.status !== 0) throw new Error(`${command} ${args[0]} failed: ${result.stderr.toString()}`);
  return result.stdout;
}

function descriptors(python: string): FileDescriptorProto[] {
  const script = join(dirname(fileURLToPath(import.meta.url)), 'proto-descriptors.py');
  const names = Object.values(GROUPS).flat();
  const { file } = fromBinary(FileDescriptorSetSchema, run(python, [script, ...names]));
  return withRenamed(withoutForwarders(file));
}

/** Adds a copy of the files of renamed packages. Types of the package are only used within it. */
function withRenamed(files: readonly FileDescriptorProto[]): FileDescriptorProto[] {
  return files.flatMap((file) => {
    const name = RENAMED[file.package];
    if (name === undefined) return [file];
    const copy = clone(FileDescriptorProtoSchema, file);
    const rename = (type: string): string => type.replace(`.${file.package}.`, `.${name}.`);
    const renameFields = (message: DescriptorProto): void => {
      for (const field of message.field) field.typeName = rename(field.typeName);
      message.nestedType.forEach(renameFields);
    };
    copy.messageType.forEach(renameFields);
    for (const method of copy.service.flatMap((service) => service.method)) {
      method.inputType = rename(method.inputType);
      method.outputType = rename(method.outputType);
    }
    copy.package = name;
    copy.name = mergedName('reflection', copy);
    return [file, copy];
  });
}

/** Replaces files that only import others publicly by what they import. */
function withoutForwarders(files: readonly FileDescriptorProto[]): FileDescriptorProto[] {
  const isForwarder = (file: FileDescriptorProto) =>
    file.messageType.length + file.enumType.length + file.service.length === 0;
  const forwarded = new Map(files.filter(isForwarder).map((file) => [file.name, file.dependency]));
  const resolve = (name: string): string[] => forwarded.get(name)?.flatMap(resolve) ?? [name];
  const kept = files.filter((file) => !isForwarder(file));
  for (const file of kept) file.dependency = file.dependency.flatMap(resolve);
  return kept;
}

/** The merged file of each proto file: one per group, package and syntax, since a file has one of each. */
function assign(files: readonly FileDescriptorProto[]): Map<string, string> {
  const byName = new Map(files.map((file) => [file.name, file]));
  const merged = new Map<string, string>();
  const visit = (name: string, group: string) => {
    const file = byName.get(name);
    if (!file || merged.has(name)) return;
    for (const dependency of file.dependency) visit(dependency, group);
    merged.set(name, isWellKnown(name) ? name : mergedName(group, file));
  };
  for (const [group, names] of Object.entries(GROUPS)) for (const name of names) visit(name, group);
  return merged;
}

function mergedName(group: string, file: FileDescriptorProto): string {
  const subpackage = file.package.split('.').slice(1);
  const syntax = file.syntax === 'proto3' ? [] : ['proto2'];
  return `${[...new Set([group, ...subpackage, ...syntax])].join('_')}.proto`;
}

/** Sets the JSON names of fields as protoc does; TensorFlow's embedded descriptors lack them. */
function nameFields(message: DescriptorProto): void {
  for (const field of message.field) {
    field.jsonName = field.name.replace(/_+(.?)/g, (_, letter: string) => letter.toUpperCase());
  }
  message.nestedType.forEach(nameFields);
}

/** Merges the descriptors by group; each file comes after those that it imports. */
function merge(files: readonly FileDescriptorProto[]): FileDescriptorProto[] {
  const target = assign(files);
  const merged = new Map<string, FileDescriptorProto>();
  for (const file of files) {
    const name = target.get(file.name) ?? file.name;
    if (isWellKnown(name)) {
      merged.set(name, file);
      continue;
    }
    const into =
      merged.get(name) ??
      create(FileDescriptorProtoSchema, {
        name,
        package: file.package,
        // An empty syntax is invalid; proto2 has none.
        ...(file.syntax !== '' && { syntax: file.syntax }),
      });
    if (into.package !== file.package || into.syntax !== file.syntax) {
      throw new Error(`${file.name} cannot be merged into ${name}: their packages or syntaxes differ`);
    }
    merged.set(name, into);
    file.messageType.forEach(nameFields);
    into.messageType.push(...file.messageType);
    into.enumType.push(...file.enumType);
    into.service.push(...file.service);
    const imports = file.dependency.map((dependency) => target.get(dependency) ?? dependency);
    into.dependency = [...new Set([...into.dependency, ...imports])].filter((one) => one !== name).sort();
  }
  return sortByImports(merged);
}

function sortByImports(files: ReadonlyMap<string, FileDescriptorProto>): FileDescriptorProto[] {
  const done = new Set<FileDescriptorProto>();
  const visit = (name: string, path: readonly string[]) => {
    if (path.includes(name)) throw new Error(`groups import each other: ${[...path, name].join(' → ')}`);
    const file = files.get(name);
    if (!file || done.has(file)) return;
    for (const dependency of file.dependency) visit(dependency, [...path, name]);
    done.add(file);
  };
  for (const name of files.keys()) visit(name, []);
  return [...done];
}

function plugin(): string {
  const manifest = createRequire(import.meta.url).resolve('@bufbuild/protoc-gen-es/package.json');
  return join(dirname(manifest), 'bin', 'protoc-gen-es');
}

export function generateProtos(python = process.env.SHOAL_ORACLE_PYTHON): GeneratedFolder {
  if (!python) {
    throw new Error(
      'set SHOAL_ORACLE_PYTHON to a Python with TensorFlow: the messages are read from its files',
    );
  }
  const protoFile = merge(descriptors(python));
  const request = create(CodeGeneratorRequestSchema, {
    protoFile,
    // The well-known types are part of @bufbuild/protobuf.
    fileToGenerate: protoFile.map((file) => file.name).filter((name) => !isWellKnown(name)),
    parameter: 'target=ts,import_extension=js',
  });
  const stdout = run(process.execPath, [plugin()], toBinary(CodeGeneratorRequestSchema, request));
  const response = fromBinary(CodeGeneratorResponseSchema, stdout);
  if (response.error) throw new Error(`protoc-gen-es: ${response.error}`);
  return {
    folder: 'src/base/proto/generated',
    files: new Map(response.file.map((file) => [file.name, file.content])),
  };
}
