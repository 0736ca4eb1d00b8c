/**
 * What a lost ps costs. `exact`: all ps go back to the newest checkpoint, so the model is again the state of one
 * instant, and so is the ledger of leased input. `partial`: only the lost ps goes back; the others keep their state.
 */
import { ShoalError } from '../../../base/errors/errors.js';

export type RecoveryMode = 'exact' | 'partial';

export const RECOVERY_MODES: readonly RecoveryMode[] = ['exact', 'partial'];

/**
 * The error of training that cannot recover partially: the ledger and a synchronous step belong to one state of the
 * whole model.
 */
export function partialRefused(what: string, why: string): ShoalError {
  return new ShoalError('SHOAL_CONFIG', `${what} cannot use recovery: 'partial': ${why}`, {
    hint: "Use recovery: 'exact', the default: all ps go back to the same checkpoint.",
  });
}
