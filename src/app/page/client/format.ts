/** Numbers and times as the page shows them, in English. */
const NUMBER = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 4 });
const WHOLE = new Intl.NumberFormat('en-US');

export const number = (value: number | null | undefined): string =>
  value === null || value === undefined ? '–' : NUMBER.format(value);

export const whole = (value: number | null | undefined): string =>
  value === null || value === undefined ? '–' : WHOLE.format(value);

export function bytesText(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let [rest, unit] = [value, 0];
  while (rest >= 1000 && unit + 1 < units.length) {
    rest /= 1000;
    unit += 1;
  }
  return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${units[unit]}`;
}

export function span(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '–';
  const secs = ms / 1000;
  if (secs < 10) return `${secs.toFixed(1)} s`;
  if (secs < 120) return `${Math.round(secs)} s`;
  if (secs < 7200) return `${Math.round(secs / 60)} min`;
  if (secs < 48 * 3600) return `${(secs / 3600).toFixed(1)} h`;
  return `${Math.round(secs / 86_400)} days`;
}

/** The time of day; with the date if it is not today's. */
export function momentText(ms: number, utc: boolean): string {
  const date = new Date(ms);
  const options = { hourCycle: 'h23', ...(utc && { timeZone: 'UTC' }) } as const;
  const time = date.toLocaleTimeString('en-GB', options);
  const day = date.toLocaleDateString('en-CA', utc ? { timeZone: 'UTC' } : {});
  const today = new Date().toLocaleDateString('en-CA', utc ? { timeZone: 'UTC' } : {});
  return day === today ? time : `${day} ${time}`;
}

/** `/job:ps/task:0` as `ps 0`. */
export const short = (task: string): string => task.replace(/^\/job:(.+)\/task:(\d+)$/, '$1 $2');
