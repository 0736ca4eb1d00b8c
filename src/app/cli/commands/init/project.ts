/** The files of a project that `shoal init` creates. */

export interface Project {
  readonly name: string;
  /** The version of Shoal, as in a package.json. */
  readonly shoal: string;
}

/** The text of each file, by its name. */
export function projectFiles({ name, shoal }: Project): Readonly<Record<string, string>> {
  return {
    'package.json': json({
      name,
      private: true,
      type: 'module',
      scripts: {
        start: 'shoal run job.ts',
        // Its own directory: with the one of `start` it would find the training finished.
        cluster: 'shoal run job.ts --ps 1 --workers 2 --dir .shoal/cluster',
        typecheck: 'tsc',
      },
      dependencies: { shoal },
      devDependencies: { typescript: '^6.0.0' },
    }),
    'tsconfig.json': json({
      compilerOptions: { strict: true, module: 'nodenext', noEmit: true },
      include: ['*.ts'],
    }),
    '.gitignore': 'node_modules/\n.shoal/\n',
    'job.ts': JOB.replace('NAME', name),
    'README.md': README.replace('NAME', name),
  };
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

const JOB = `import { defineJob, tf } from 'shoal';

export default defineJob({
  name: 'NAME',
  // Points on the line y = 0.1 x + 0.3. Replace it by your data, such as tf.data.tfRecord('data/*').
  input: () => {
    const x = tf.randomUniform([100]);
    return { x, y: x.mul(0.1).add(0.3) };
  },
  model({ input }) {
    const w = tf.variable('w', { shape: [1] });
    const b = tf.variable('b', { shape: [1], initializer: tf.zerosInitializer() });
    const y = input.x.mul(w).add(b);
    const loss = tf.losses.meanSquaredError({ labels: input.y, predictions: y });
    return { loss, optimizer: tf.train.adagrad(0.5), outputs: { w, b, y } };
  },
  train: {
    lastStep: 2_000,
    checkpoint: { everySecs: 10 },
    summaries: {}, // The loss and the learning rate, for TensorBoard.
  },
  export: {}, // A SavedModel at the end of training: input x, output y.
});
`;

const README = `# NAME

\`\`\`sh
npm install
npx shoal setup        # fetches TensorFlow's library, once
npm start              # trains in one process
npm run cluster        # trains on a local cluster of 1 ps and 2 workers
npm run typecheck
\`\`\`

\`job.ts\` has the model, its input and how long to train. Checkpoints, summaries and exports are in \`.shoal\`: training that
has ended continues if \`lastStep\` is higher, and starts from the beginning if the directory is removed.
`;
