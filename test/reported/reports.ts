/** Situations that users of gateways and clients reported in public, with the tests that hold the gateway to them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

const reportSchema = z.strictObject({
  /** The situation, in one sentence. */
  kind: z.string().min(10),
  /** Public sources: `owner/repo#number`, or the title of a published page. */
  threads: z.array(z.string().min(3)).min(1),
  /** Path of the test file. */
  test: z.string(),
  /** The test's name, or a distinctive part of it as the file contains it. */
  name: z.string().min(3),
})

export type Report = z.infer<typeof reportSchema>

/** Each file of this folder is a topic with its reports. */
export const readReports = (): ReadonlyMap<string, readonly Report[]> =>
  new Map(
    readdirSync(import.meta.dirname)
      .filter((name) => name.endsWith('.json'))
      .sort()
      .map((name) => [
        name.slice(0, -'.json'.length),
        z.array(reportSchema).parse(JSON.parse(readFileSync(join(import.meta.dirname, name), 'utf8'))),
      ]),
  )
