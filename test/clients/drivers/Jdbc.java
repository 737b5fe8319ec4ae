import java.io.IOException;
import java.io.OutputStream;
import java.io.StringReader;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.postgresql.PGConnection;

/** What test/clients/drivers.test.ts asks of each driver, by pgjdbc: a JSON line for each step. */
class Jdbc {
  interface Work {
    void run() throws Exception;
  }

  static void say(String step, Object value) {
    String json = value instanceof String ? "\"" + value + "\"" : String.valueOf(value);
    System.out.println("{\"step\":\"" + step + "\",\"value\":" + json + "}");
  }

  /** The SQLSTATE that this work fails with; class 08 is the driver's own word for a connection that is found closed. */
  static String stateOf(Work work) throws Exception {
    try {
      work.run();
      return null;
    } catch (SQLException error) {
      return error.getSQLState().startsWith("08") ? "closed" : error.getSQLState();
    }
  }

  static int number(Connection connection, String sql) throws SQLException {
    try (ResultSet rows = connection.createStatement().executeQuery(sql)) {
      rows.next();
      return rows.getInt(1);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Connection connection = DriverManager.getConnection(arguments[0]);
    Statement plain = connection.createStatement();
    plain.execute("drop table if exists jdbc_item; create table jdbc_item (n int primary key, t text)");

    int sum = 0;
    // From its fifth execution on, the driver uses a named statement.
    try (var query = connection.prepareStatement("select ?::int")) {
      for (int n = 0; n < 100; n++) {
        query.setInt(1, n);
        try (ResultSet rows = query.executeQuery()) {
          rows.next();
          sum += rows.getInt(1);
        }
      }
    }
    say("prepared", sum);

    var lines = new StringBuilder();
    for (int n = 0; n < 20_000; n++) lines.append(n).append('\t').append("x".repeat(100)).append('\n');
    var copy = connection.unwrap(PGConnection.class).getCopyAPI();
    copy.copyIn("copy jdbc_item from stdin", new StringReader(lines.toString()));
    say("copy", copy.copyOut("copy jdbc_item to stdout", OutputStream.nullOutputStream()));

    // A batch of updates is what this driver sends without waiting in between.
    try (var batch = connection.prepareStatement("update jdbc_item set t = ? where n = ?")) {
      for (int n = 0; n < 200; n++) {
        batch.setString(1, String.valueOf(n * 2));
        batch.setInt(2, n);
        batch.addBatch();
      }
      batch.executeBatch();
    }
    say("pipeline", number(connection, "select sum(t::int) from jdbc_item where n < 200"));

    say("failed_pipeline", stateOf(() -> {
      try (var batch = connection.prepareStatement("insert into jdbc_item values (10 / ? - 100, '')")) {
        for (int n : new int[] {1, 0, 2}) {
          batch.setInt(1, n);
          batch.addBatch();
        }
        connection.setAutoCommit(false);
        batch.executeBatch();
      } catch (BatchUpdateException error) {
        connection.rollback();
        throw error;
      } finally {
        connection.setAutoCommit(true);
      }
    }));

    connection.setAutoCommit(false);
    say("transaction", stateOf(() -> {
      plain.execute("insert into jdbc_item values (-3, '')");
      plain.execute("insert into jdbc_item values (-3, '')");
    }));
    connection.rollback();
    connection.setAutoCommit(true);
    say("left", number(connection, "select count(*) from jdbc_item where n < 0"));

    say("cancel_soon", null);
    new Thread(() -> {
      try {
        waitForLine();
        plain.cancel();
      } catch (IOException | SQLException error) {
        throw new IllegalStateException(error);
      }
    }).start();
    say("cancel", stateOf(() -> plain.execute("select pg_sleep(60)")));
    say("after_cancel", number(connection, "select 1"));

    say("suspend_now", null);
    waitForLine();
    say("after_suspend", stateOf(() -> plain.execute("select 1")));
    connection.close();
    try (Connection again = DriverManager.getConnection(arguments[0])) {
      say("again", number(again, "select count(*) from jdbc_item where n >= 0"));
    }
  }

  static void waitForLine() throws IOException {
    for (int read = 0; read != '\n' && read != -1; ) read = System.in.read();
  }
}
