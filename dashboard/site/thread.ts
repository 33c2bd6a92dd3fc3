/** Makes the files of the documentation in a thread of the gateway: the npm package has the Markdown only. */
import { siteFiles } from './files.ts'

export const program = (_: null) => ({ methods: { make: siteFiles } })
