import type { Env } from '../config/environment.ts'

/** The environment with what `.env` adds, read when a credential is wanted: where one is may have changed since the start. */
export type Environment = () => Promise<Env>

/** What the clouds' libraries look for; they read the environment of the process themselves. */
const THEIRS = /^(?:AWS|GOOGLE|GCE|CLOUDSDK)_[A-Z0-9_]+$/

/** Puts what only `.env` has where the libraries look. What the process was started with stays. */
export const lend = async (environment: Environment): Promise<void> => {
  for (const [name, value] of Object.entries(await environment()))
    if (value !== undefined && THEIRS.test(name) && process.env[name] === undefined) process.env[name] = value
}
