// Makes a gRPC call and prints how it ended.
import grpc from '@grpc/grpc-js';

const bytes = (b) => b;
const client = new grpc.Client(new URL(process.argv[3]).host, grpc.credentials.createSsl());
client.makeUnaryRequest('/chat.Messages/Delete', bytes, bytes, Buffer.alloc(100_000), (error) => {
  console.log(error ? `${error.code} ${error.details}` : 'answered');
  client.close();
});
