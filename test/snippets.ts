/** Code in the documentation. */
import { readFileSync } from 'node:fs';

/** The code blocks of a language in a Markdown file of the checkout, in order. */
export function snippets(file: string, language: string): string[] {
  const text = readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, code]) => code as string,
  );
}
