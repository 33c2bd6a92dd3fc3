/** The kept bodies of a request. */
import type { StoredBodies } from '../../src/usage/bodies/recorded-calls.ts'
import { read } from './api.ts'

/** Reads the kept bodies, which is an entry of the audit log; null: they are not kept. */
export const readBodies = async (id: string): Promise<StoredBodies | null> =>
  (await read<{ readonly bodies: StoredBodies | null }>(`/requests/${encodeURIComponent(id)}/bodies`)).bodies
