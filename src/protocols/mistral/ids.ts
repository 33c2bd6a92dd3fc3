/** Replaces invalid call IDs by valid ones, derived from the original so that no state is needed. */
import { digest } from '../shared/call-ids.ts'

const ID = /^[a-zA-Z0-9]{9}$/

/**
 * A valid call ID: nine letters and digits (400, code 3280 otherwise; karthink/gptel#1203). Mistral's own IDs pass
 * unchanged; others become nine characters of a digest. With 1e14 values, collisions within a conversation are negligible.
 */
export const callId = (id: string): string => (ID.test(id) ? id : digest(id).slice(1, 10))
