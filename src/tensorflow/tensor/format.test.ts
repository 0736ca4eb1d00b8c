/** What `console.log` shows of a tensor. */
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { Tensor } from './tensor.js';

test.each([
  ['a scalar', Tensor.of(0.1), 'Tensor(float32 []) 0.1'],
  ['a vector', Tensor.of([1, 2.5, -3]), 'Tensor(float32 [3]) [1, 2.5, -3]'],
  ['no elements', Tensor.of([]), 'Tensor(float32 [0]) []'],
  [
    'a matrix',
    Tensor.of([
      [1, 20],
      [300, 4],
    ]),
    'Tensor(float32 [2, 2])\n    [[  1, 20],\n     [300,  4]]',
  ],
  [
    'two matrices',
    Tensor.of([[[1, 2]], [[3, 4]]]),
    'Tensor(float32 [2, 1, 2])\n    [[[1, 2]],\n\n     [[3, 4]]]',
  ],
  ['large integers', Tensor.of([2n ** 60n]), 'Tensor(int64 [1]) [1152921504606846976]'],
  ['booleans', Tensor.of([true, false]), 'Tensor(bool [2]) [true, false]'],
  ['strings', Tensor.of(['a', "it's"]), `Tensor(string [2]) ['a', "it's"]`],
  ['halves', Tensor.of([0.5], { dtype: 'float16' }), 'Tensor(float16 [1]) [0.5]'],
  ['complex numbers', Tensor.of([{ re: 1, im: -2 }]), 'Tensor(complex64 [1]) [1 - 2j]'],
  ['NaN and infinity', Tensor.of([NaN, Infinity]), 'Tensor(float32 [2]) [NaN, Infinity]'],
])('%s', (_, tensor, text) => {
  expect(inspect(tensor)).toBe(text);
});

test('long axes are shortened to their ends', () => {
  const data = Float32Array.from({ length: 30_000 }, (_, i) => i);
  expect(inspect(Tensor.of(data))).toBe('Tensor(float32 [30000]) [0, 1, 2, ..., 29997, 29998, 29999]');
  expect(inspect(Tensor.of(data, { shape: [300, 100] })).split('\n')).toEqual([
    'Tensor(float32 [300, 100])',
    '    [[    0,     1,     2, ...,    97,    98,    99],',
    '     [  100,   101,   102, ...,   197,   198,   199],',
    '     [  200,   201,   202, ...,   297,   298,   299],',
    '     ...,',
    '     [29700, 29701, 29702, ..., 29797, 29798, 29799],',
    '     [29800, 29801, 29802, ..., 29897, 29898, 29899],',
    '     [29900, 29901, 29902, ..., 29997, 29998, 29999]]',
  ]);
});

test('inside an object the lines are indented', () => {
  expect(inspect({ w: Tensor.of([[1], [2]]) })).toBe(
    '{\n  w: Tensor(float32 [2, 1])\n      [[1],\n       [2]]\n}',
  );
});

test('a disposed tensor says so', () => {
  const tensor = Tensor.allocate([100_000], 'float32');
  tensor.dispose();
  expect(inspect(tensor)).toBe('Tensor(float32 [100000]) (disposed)');
});
