/** The length of a token that cannot be guessed. */
import type { Problem } from './problem.ts'

/** Characters: as many as `openssl rand -hex 12` prints. */
export const SHORTEST_TOKEN = 24

const REMEDY = 'at least 24 characters, such as those of: openssl rand -hex 24'

/** The problem of a token of `auth.admin` that is too short; null: it is long enough. */
export const adminTokenProblem = (token: string | undefined, where: string): Problem | null =>
  token === undefined || token.length >= SHORTEST_TOKEN
    ? null
    : { where, found: `a token of ${token.length} characters, which can be guessed`, allowed: REMEDY }
