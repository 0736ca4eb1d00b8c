/** Whether an amount, such as bytes, is spread evenly over the ps, in words. */
import { bytesText } from './format.js';

export interface Amount {
  readonly task: string;
  readonly amount: number;
}

/** Less than this is not worth to be spread. */
export const LEAST_BYTES = 1e6;
export const LEAST_BYTES_PER_SECOND = 1e5;
/** A task that has this many times its even share is named. */
const UNEVEN = 1.5;

export const shareOf = (amount: number, all: readonly Amount[]): number => {
  const total = all.reduce((sum, one) => sum + one.amount, 0);
  return total === 0 ? 0 : amount / total;
};

/** Names the task that has far more than an even share; undefined: none has, or there is little to share. */
export function uneven(
  all: readonly Amount[],
  {
    least,
    what,
    unit,
  }: {
    readonly least: number;
    /** What it does, with % in the place of its share. */
    readonly what: string;
    readonly unit: string;
  },
): string | undefined {
  const total = all.reduce((sum, { amount }) => sum + amount, 0);
  const [most] = [...all].sort((a, b) => b.amount - a.amount);
  if (!most || all.length < 2 || total < least) return undefined;
  const share = most.amount / total;
  if (share * all.length <= UNEVEN) return undefined;
  const amounts = `${bytesText(most.amount)}${unit} of ${bytesText(total)}${unit}`;
  return `${most.task} ${what.replace('%', percent(share))}: ${amounts}. An even share is ${percent(1 / all.length)}.`;
}

export const percent = (share: number): string =>
  `${(share * 100).toFixed(share > 0.995 || share < 0.1 ? 1 : 0)} %`;
