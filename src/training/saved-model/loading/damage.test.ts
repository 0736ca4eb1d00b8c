/** Damaged or partially copied exports, and invalid signatures. */
import { cp, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TensorInfoSchema } from '../../../base/proto/generated/model_pb.js';
import { tf } from '../../../index.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { Session } from '../../../tensorflow/session/session.js';
import {
  buildSignatureDef,
  buildTensorInfo,
  classificationSignatureDef,
  loadSavedModel,
  regressionSignatureDef,
  SavedModelBuilder,
  signatureConstants,
  simpleSave,
} from '../index.js';
import { digitsModel } from '../testing/digits-model.js';

let root: string;
let good: string;
let model: ReturnType<typeof digitsModel>;
let session: Session;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-damage-'));
  good = join(root, 'good');
  const vocabulary = join(root, 'classes.txt');
  await writeFile(vocabulary, 'a\nb\nc\nd\n');
  model = digitsModel({ vocabulary, parts: 2 });
  session = Session.open({ graph: model.graph });
  await session.run([model.init, model.tables]);
  await using builder = new SavedModelBuilder(good);
  await builder.addMetaGraphAndVariables(session, ['serve'], { signatureDefMap: model.signatureDefMap });
  await builder.save();
});
afterAll(async () => {
  await session.close();
  await rm(root, { recursive: true, force: true });
});

const DATA = 'variables/variables.data-00000-of-00001';
const INDEX = 'variables/variables.index';

async function flip(path: string, at: number): Promise<void> {
  const bytes = await readFile(path);
  bytes[at] = bytes[at]! ^ 0xff;
  await writeFile(path, bytes);
}

describe('a damaged export is an error that names the file:', () => {
  const cases: [what: string, file: string, code: string, damage: (path: string) => Promise<unknown>][] = [
    ['no saved_model.pb', 'saved_model.pb', 'SHOAL_NOT_FOUND', (path) => rm(path)],
    ['half a saved_model.pb', 'saved_model.pb', 'SHOAL_CORRUPT', (path) => truncate(path, 1000)],
    ['an empty saved_model.pb', 'saved_model.pb', 'SHOAL_CORRUPT', (path) => truncate(path, 0)],
    ['no index', INDEX, 'SHOAL_CORRUPT', (path) => rm(path)],
    ['half an index', INDEX, 'SHOAL_CORRUPT', (path) => truncate(path, 60)],
    ['a flipped byte in the index', INDEX, 'SHOAL_CORRUPT', (path) => flip(path, 5)],
    ['no data', DATA, 'SHOAL_CORRUPT', (path) => rm(path)],
    ['half the data', DATA, 'SHOAL_CORRUPT', (path) => truncate(path, 50)],
    ['a flipped byte in the data', DATA, 'SHOAL_CORRUPT', (path) => flip(path, 20)],
    ['no asset', 'assets/classes.txt', 'SHOAL_CORRUPT', (path) => rm(path)],
  ];
  test.each(cases)('%s', async (what, file, code, damage) => {
    const dir = join(root, what.replaceAll(' ', '_'));
    await cp(good, dir, { recursive: true });
    await damage(join(dir, file));
    const before = liveHandles();
    for (const verify of [false, true]) {
      await expect(loadSavedModel(dir, { verify })).rejects.toMatchObject({
        code,
        message: expect.stringContaining(file.split('/').at(-1)!),
      });
    }
    expect(liveHandles()).toEqual(before);
  });

  test('a missing directory', async () => {
    await expect(loadSavedModel(join(root, 'nowhere'))).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  });
});

describe('signatures are checked:', () => {
  const wrong = async (
    signatureDefMap: Record<string, ReturnType<typeof buildSignatureDef>>,
    message: RegExp,
  ) => {
    await using builder = new SavedModelBuilder(join(root, 'never'));
    await expect(
      builder.addMetaGraphAndVariables(session, ['serve'], { signatureDefMap }),
    ).rejects.toMatchObject({
      code: 'SHOAL_INVALID_ARGUMENT',
      message: expect.stringMatching(message),
    });
  };
  const info = (change: object) => create(TensorInfoSchema, { ...buildTensorInfo(model.x), ...change });

  test('missing tensors, and tensors of another type or shape', async () => {
    const outputs = { scores: model.y };
    const missing = info({ encoding: { case: 'name', value: 'nothing:0' } });
    await wrong(
      { s: buildSignatureDef({ inputs: { x: missing }, outputs }) },
      /input 'x' of signature 's'.*nothing:0/,
    );
    await wrong(
      { s: buildSignatureDef({ inputs: { x: info({ dtype: 3 }) }, outputs }) },
      /int32.*x:0 is float32/,
    );
    const tensorShape = { dim: [{ size: 2n }] };
    await wrong({ s: buildSignatureDef({ inputs: { x: info({ tensorShape }) }, outputs }) }, /\[2\].*x:0/);
    await wrong({ s: buildSignatureDef({ inputs: { x: model.x } }) }, /no outputs/);
    await wrong(
      { __saved_model_init_op: buildSignatureDef({ inputs: { x: model.x }, outputs }) },
      /reserved/,
    );
  });

  test('the conventions of classification and regression', async () => {
    const { x, y } = model;
    const examples = model.graph.output('tf_example:0');
    expect(() => classificationSignatureDef({ examples: x, scores: y })).toThrow(
      /'inputs' \(x:0\) of float32, not string/,
    );
    expect(() => classificationSignatureDef({ examples })).toThrow(/no outputs/);
    expect(() => classificationSignatureDef({ examples, classes: y })).toThrow(
      /'classes'.*float32, not string/,
    );
    expect(() => regressionSignatureDef({ examples, predictions: examples })).toThrow(
      /'outputs'.*string, not float32/,
    );
    const methodName = signatureConstants.classifyMethodName;
    const bad = buildSignatureDef({ inputs: { wrong: examples }, outputs: { scores: y }, methodName });
    await wrong({ s: bad }, /needs the input 'inputs'/);
  });

  test('a variable that cannot be exported', async () => {
    const { graph, x } = model;
    const y = graph.asDefault(() => {
      const local = tf.newVariable([1, 2, 3, 4, 5, 6], {
        name: 'local',
        collections: ['local_variables'],
        trainable: false,
      });
      return x.add(local);
    });
    await expect(simpleSave(session, join(root, 'local'), { inputs: { x }, outputs: { y } })).rejects.toThrow(
      /reads the variable 'local'/,
    );
  });
});

test('an existing version is rejected before anything is written, and a failed export leaves nothing', async () => {
  const { x, y } = model;
  const options = { inputs: { x }, outputs: { y } };
  await expect(simpleSave(session, good, options)).rejects.toMatchObject({ code: 'SHOAL_ALREADY_EXISTS' });
  const source = {
    write: async () => {
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    },
  };
  const before = await readdir(root);
  await expect(simpleSave(session, join(root, 'full'), { ...options, source })).rejects.toMatchObject({
    code: 'SHOAL_NO_SPACE',
    message: expect.stringContaining(join(root, 'full')),
  });
  expect(await readdir(root)).toEqual(before);
});
