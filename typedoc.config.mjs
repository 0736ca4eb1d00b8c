/** The reference of the API (`npm run docs`): one module for each entry point of the package. */
import { OptionDefaults } from 'typedoc';

export default {
  name: 'Shoal',
  entryPoints: [
    'src/index.ts',
    'src/distributed/cluster/index.ts',
    'src/training/train/index.ts',
    'src/tensorflow/formats/index.ts',
    'src/training/saved-model/index.ts',
    'src/app/serving/index.ts',
  ],
  tsconfig: 'tsconfig.build.json',
  out: 'docs/api',
  readme: 'none',
  excludeInternal: true,
  excludePrivate: true,
  excludeExternals: true,
  disableSources: true,
  blockTags: [...OptionDefaults.blockTags, '@generated'],
  validation: { invalidLink: true, notExported: false, notDocumented: false },
  treatValidationWarningsAsErrors: true,
};
