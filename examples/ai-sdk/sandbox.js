// The files of a golem program as tools of the AI SDK.
import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as StdioTransport } from '@ai-sdk/mcp/mcp-stdio';

// How golem's tools are called in a program of the AI SDK.
const names = {
  readFile: 'read_file',
  writeFile: 'write_file',
  editFile: 'edit_file',
  listFiles: 'list_files',
  deleteFile: 'delete_file',
};

// createSandboxTools starts golem mcp in a folder. approve is shown what a call would do,
// and says whether it may: only true is a yes. golem decides which calls need that.
export async function createSandboxTools({ cwd, approve }) {
  const client = await createMCPClient({
    transport: new StdioTransport({ command: 'golem', args: ['mcp'], cwd, env: process.env }),
    capabilities: { elicitation: {} },
  });
  client.onElicitationRequest(ElicitationRequestSchema, async ({ params }) => ({
    action: 'accept',
    content: { answer: (await approve(params.message)) === true ? params.requestedSchema.properties.answer.enum.at(-1) : 'no' },
  }));
  const all = await client.tools();
  const tools = Object.fromEntries(Object.entries(names).map(([name, golem]) => [name, all[golem]]));
  return { client, all, tools, close: () => client.close() };
}
