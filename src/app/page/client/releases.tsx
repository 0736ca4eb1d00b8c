/** What is said when tasks run different releases, as during an upgrade. */
import { short } from './format.js';
import { state } from './store.js';

const MOST_NAMES = 4;

export function Releases() {
  const byRelease = new Map<string, string[]>();
  for (const { task, status, report } of state.value!.tasks) {
    if (report === null || status === 'dead' || status === 'left') continue;
    byRelease.set(report.release, [...(byRelease.get(report.release) ?? []), short(task)]);
  }
  if (byRelease.size < 2) return null;
  const parts = [...byRelease].map(([release, tasks]) => {
    const more = tasks.length - MOST_NAMES;
    return `${release} (${tasks.slice(0, MOST_NAMES).join(', ')}${more > 0 ? `, and ${more} more` : ''})`;
  });
  return (
    <p class="banner" role="status">
      The tasks run different releases of Shoal: {parts.join('; ')}.
    </p>
  );
}
