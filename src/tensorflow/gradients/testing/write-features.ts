/** Updates the table of gradients in FEATURES.md. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { withGradientSection } from './state.js';

const file = new URL('../../../../FEATURES.md', import.meta.url);
writeFileSync(file, withGradientSection(existsSync(file) ? readFileSync(file, 'utf8') : '# Features\n'));
