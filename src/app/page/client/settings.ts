/** What the reader has chosen, kept by the browser. */
import { effect, signal } from '@preact/signals';

export type Axis = 'time' | 'since' | 'step';
export type Theme = 'auto' | 'light' | 'dark';

function kept<T extends string | number | boolean>(name: string, initial: T) {
  let value = initial;
  try {
    const text = localStorage.getItem(`shoal.${name}`);
    if (text !== null) value = JSON.parse(text) as T;
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  const chosen = signal<T>(typeof value === typeof initial ? value : initial);
  effect(() => {
    try {
      localStorage.setItem(`shoal.${name}`, JSON.stringify(chosen.value));
    } catch {
      // As above.
    }
  });
  return chosen;
}

export const theme = kept<Theme>('theme', 'auto');
export const isUtc = kept<boolean>('utc', false);
export const smoothing = kept<number>('smoothing', 0);
export const axis = kept<Axis>('axis', 'time');

const dark = matchMedia('(prefers-color-scheme: dark)');
export const isDark = signal(dark.matches);

const update = () => {
  isDark.value = theme.value === 'dark' || (theme.value === 'auto' && dark.matches);
  document.documentElement.dataset.theme = isDark.value ? 'dark' : 'light';
};
dark.addEventListener('change', update);
effect(update);
