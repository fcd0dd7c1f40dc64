import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one virtual machine: to start one costs as much as twenty tools. A line
 * of the standard input is a tool: its own standard input in base64, its class and its arguments, with tabs between. The answer
 * is a line with the exit status and the sizes of what was printed to standard output and standard error, then both.
 */
final class ToolServer {
    /** Thrown instead of ending the process. An Error, so that a tool that catches exceptions does not catch it. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;
    }

    /** Both streams stay the same objects for all tools: Scala's console keeps the ones that it met first. */
    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();
    /** What a tool leaves to the end of its process: the console producer closes, and so flushes, in one. */
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static volatile int status = -1;

    public static void main(String[] arguments) throws Exception {
        OutputStream answers = new FileOutputStream(FileDescriptor.out);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(ToolServer::exit);
        Exit.setHaltProcedure(ToolServer::exit);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            OUT.reset();
            ERR.reset();
            status = -1;
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[0])));
            run(words[1], Arrays.copyOfRange(words, 2, words.length));
            HOOKS.forEach(Runnable::run);
            HOOKS.clear();
            System.out.flush();
            System.err.flush();
            String head = Math.max(status, 0) + " " + OUT.size() + " " + ERR.size() + "\n";
            answers.write(head.getBytes(StandardCharsets.UTF_8));
            OUT.writeTo(answers);
            ERR.writeTo(answers);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String tool, String[] arguments) throws ReflectiveOperationException {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException raised) {
            if (!(raised.getCause() instanceof Exited)) {
                raised.getCause().printStackTrace();
                exit(1);
            }
        }
    }

    /** The first status counts: a tool may catch Exited, and exit again for that. */
    private static void exit(int code, String message) {
        exit(code);
        throw new Exited();
    }

    private static void exit(int code) {
        if (status < 0) {
            status = code;
        }
    }
}
