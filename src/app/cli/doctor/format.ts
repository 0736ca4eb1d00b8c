/** Formats the findings of `shoal doctor` for the terminal. */
import type { SearchedPlace } from '../../../tensorflow/native/library/locate.js';
import type { Diagnosis } from './finding.js';

export function formatFindings({ usable, findings }: Diagnosis): string {
  const width = Math.max(...findings.map(({ name }) => name.length));
  const lines = findings.flatMap(({ name, status, summary, fix, details }) => [
    `${status.padEnd(8)} ${name.padEnd(width)}  ${summary}`,
    ...searchedLines(details.searched, width),
    ...(fix === undefined ? [] : [indent(width, `fix: ${fix}`)]),
  ]);
  const problems = findings.filter(({ status }) => status === 'problem').length;
  const verdict = usable ? 'Shoal can run here.' : `Shoal cannot run here: ${problems} to fix, see above.`;
  return [...lines, '', verdict].join('\n');
}

function searchedLines(searched: unknown, width: number): string[] {
  if (!Array.isArray(searched)) return [];
  return (searched as SearchedPlace[]).map(({ place, found, why }) =>
    indent(width, `searched ${place}: ${found ? 'found' : why}`),
  );
}

function indent(width: number, text: string): string {
  return `${' '.repeat(width + 11)}${text}`;
}
