/** Tags of teams and keys, and of the requests that a budget counts. */
import { z } from 'zod'
import { MAX } from './member.ts'

/** Characters of the JSON text of all tags: the ledger records them with each request. */
const MAX_TAGS = 1_024

const NAME = /^[A-Za-z0-9_.-]{1,64}$/

export const tags = z.record(z.string(), z.string().max(MAX.text)).superRefine((written, context) => {
  for (const name of Object.keys(written))
    if (!NAME.test(name))
      context.addIssue({
        code: 'custom',
        message: `The name of a tag has only letters, digits and . _ -, at most 64 characters.`,
        path: [name],
        params: {
          found: `the tag "${name.slice(0, 64)}"`,
          allowed: 'names of letters, digits and . _ -, at most 64 characters',
          at: 'name',
        },
      })
  if (JSON.stringify(written).length > MAX_TAGS)
    context.addIssue({
      code: 'custom',
      message: `The tags have ${JSON.stringify(written).length} characters as JSON (limit ${MAX_TAGS} in all). Remove or shorten some.`,
      params: { found: 'too many tags', allowed: `at most ${MAX_TAGS} characters in all` },
    })
})
