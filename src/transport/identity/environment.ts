import type { Env } from '../../config/env.ts'

/** Reads the environment merged with `.env`. Called for each credential, since the variables may change at run time. */
export type Environment = () => Promise<Env>

/** Variables that the clouds' libraries read from `process.env`. */
const CLOUD_VARIABLE = /^(?:AWS|GOOGLE|GCE|CLOUDSDK)_[A-Z0-9_]+$/

/** Copies cloud variables from `.env`, and without quotation marks, to `process.env`. Real variables keep their value. */
export const exportCloudVariables = async (environment: Environment): Promise<void> => {
  for (const [name, value] of Object.entries(await environment()))
    if (value !== undefined && CLOUD_VARIABLE.test(name) && process.env[name] !== value) process.env[name] = value
}
