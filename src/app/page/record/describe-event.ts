/** The events of training as the timeline of the page shows them. */
import { bytes } from '../../../base/text/format.js';
import type { TrainingEvent } from '../../../training/train/task/training-events.js';
import type { PageEvent } from '../state.js';

export function describeTrainingEvent(
  event: TrainingEvent,
): Pick<PageEvent, 'type' | 'text' | 'step' | 'ms'> {
  const { type } = event;
  switch (type) {
    case 'saved': {
      const { checkpoint, step, ms } = event;
      return { type, step, ms, text: `saved ${checkpoint}, ${bytes(event.bytes)} in ${secs(ms)}` };
    }
    case 'save-failed':
      return { type, text: `a save failed: ${event.why}` };
    case 'exported':
      return { type, step: event.step, ms: event.ms, text: `exported to ${event.path} in ${secs(event.ms)}` };
    case 'published': {
      const { step, server, state, text } = event;
      const isTaken = state === 'published';
      const what = isTaken ? `step ${step} serves at ${server}` : `step ${step} does not serve at ${server}`;
      return {
        ...{ type: isTaken ? type : 'publish-failed', step },
        text: text === '' ? what : `${what}: ${text}`,
      };
    }
    case 'evaluated': {
      const results = Object.entries(event.results).map(([name, value]) => `${name} ${value.toPrecision(4)}`);
      return { type, step: event.step, text: `evaluated: ${results.join(', ')}` };
    }
    case 'recovered': {
      const { ms, lost, restored, phases } = event;
      const parts = Object.entries(phases).map(([phase, time]) => `${phase} ${secs(time)}`);
      const text = [
        `trains again after ${secs(ms)}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`,
        ...(lost.length === 0 ? [] : [`lost ${lost.join(', ')}`]),
        ...(restored ? [restored] : []),
      ].join('; ');
      return { type, ms, text };
    }
  }
}

const secs = (ms: number): string => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
