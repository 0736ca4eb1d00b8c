/**
 * Whether TensorFlow's request ids can be repaired (request-ids.ts), told from the files of the libraries:
 * nothing is loaded.
 */
import { defines, type ElfImage, findJumpSlot } from './elf.js';
import { withImageFile } from './image-file.js';

/** The generator that the library uses, seeded with 32 bits on each thread. */
export const WEAK = '_ZN3tsl6random16ThreadLocalNew64Ev';
/** One with the same signature, well seeded. */
export const STRONG = '_ZN3tsl6random5New64Ev';
/** Who asks for ids: by it the effect of the repair is seen. */
export const GET_ID = '_ZN10tensorflow18GetUniqueRequestIdEv';

export type RequestIdSurvey =
  | { readonly repairable: true }
  | { readonly repairable: false; readonly why: string };

export interface LibraryFiles {
  readonly ccPath: string;
  readonly frameworkPath: string;
}

export function surveyRequestIds(
  { ccPath, frameworkPath }: LibraryFiles,
  platform: NodeJS.Platform = process.platform,
): RequestIdSurvey {
  if (platform !== 'linux') return { repairable: false, why: `not known how on ${platform}` };
  if (!withImageFile(frameworkPath, (image) => defines(image, STRONG)))
    return { repairable: false, why: 'the library has no other generator' };
  return withImageFile(ccPath, surveyCaller);
}

function surveyCaller(image: ElfImage): RequestIdSurvey {
  const { why } = findJumpSlot(image, WEAK);
  if (why !== undefined) return { repairable: false, why };
  if (!defines(image, GET_ID))
    return { repairable: false, why: 'the library gives no ids that could be looked at' };
  return { repairable: true };
}
