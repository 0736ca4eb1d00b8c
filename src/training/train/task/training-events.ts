/** What happens in the training of a task, for those who show it. */

/**
 * What a serving process has of an export. `waiting`: it does not answer, and gets the version when it returns;
 * `refused`: it keeps another one; `failed`: given up.
 */
export type PublishState = 'publishing' | 'published' | 'waiting' | 'refused' | 'failed';

export type TrainingEvent =
  | {
      readonly type: 'saved';
      readonly checkpoint: string;
      readonly step: number;
      readonly ms: number;
      readonly bytes: number;
    }
  | { readonly type: 'save-failed'; readonly why: string }
  | {
      readonly type: 'recovered';
      readonly ms: number;
      /** The duration of each phase in milliseconds. */
      readonly phases: Readonly<Record<string, number>>;
      readonly lost: readonly string[];
      /** What was restored, as text; undefined: nothing. */
      readonly restored: string | undefined;
    }
  | { readonly type: 'exported'; readonly step: number; readonly path: string; readonly ms: number }
  | {
      readonly type: 'published';
      /** The export, and the serving process. */
      readonly path: string;
      readonly step: number;
      readonly server: string;
      readonly state: PublishState;
      readonly text: string;
    }
  | {
      readonly type: 'evaluated';
      readonly step: number;
      readonly results: Readonly<Record<string, number>>;
    };

export type TrainingEventListener = (event: TrainingEvent) => void;
